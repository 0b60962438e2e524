# Fails the build if an image is misaligned or blank. Put it into the build block of a template with a source "qemu".
# The names are those of qemu's images if the source sets neither output_directory nor vm_name.
post-processor "shell-local" {
  inline = ["straddle check --fail-on warning,blank output-${source.name}/packer-${source.name}*"]
}
