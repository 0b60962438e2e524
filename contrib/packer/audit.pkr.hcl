# Fails the build if the image is misaligned or blank. Put the block into the build block of a template with a source that writes a disk image.
post-processor "shell-local" {
  inline = ["straddle check --fail-on warning,blank build/*.img"]
}
