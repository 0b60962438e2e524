# The files of the power-cut test: `cut.pl write DRIVES` makes them, `cut.pl check DRIVES < MARKS` checks
# those that were synced.
use strict;
use warnings;
use IO::Handle;

$| = 1;
my ($action, $drives) = @ARGV;

# File $n of drive $drive: up to 90 kB of lines that name both.
sub content {
	my ($drive, $n) = @_;
	my $length = $n * 7919 % 90000 + 1;
	my $line = "drive $drive file $n\n";
	return substr $line x ($length / length($line) + 1), 0, $length;
}

sub path {
	my ($drive, $n) = @_;
	return "/run/fs$drive/dir" . ($n % 4) . "/file$n";
}

if ($action eq 'write') {
	for my $drive (0 .. $drives - 1) { mkdir "/run/fs$drive/dir$_" for 0 .. 3 }
	for my $n (0 .. 400) {
		for my $drive (0 .. $drives - 1) {
			open my $file, '>', path($drive, $n) or exit 0;
			print $file content($drive, $n) or exit 0;
			$file->flush or exit 0;
			if ($n % 3 == 0) { # the others wait for the kernel to write them
				$file->sync or exit 0;
				print "synced $drive $n\n";
			}
			close $file or exit 0;
			unlink path($drive, $n - 7) if $n % 5 == 0 && $n >= 7 && ($n - 7) % 3 != 0;
		}
	}
	exit 0;
}

my ($checked, $bad) = (0, 0);
while (<STDIN>) {
	my ($drive, $n) = /^synced (\d+) (\d+)$/ or next;
	$checked++;
	my $path = path($drive, $n);
	my $found = '';
	if (open my $file, '<', $path) { local $/; $found = <$file> // '' }
	next if $found eq content($drive, $n);
	$bad++;
	printf "LOST: %s has %d bytes, of %d\n", $path, length $found, length content($drive, $n);
}
print "checked $checked files, $bad lost\n";
exit($bad ? 1 : 0);
