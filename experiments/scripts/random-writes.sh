#!/bin/bash
# T. Miller's random-write program, which spectre256 ran too: random-writes.sh OFFSET. 1000 times it seeks to
# random() % 200000000 * 4096 + OFFSET * 512 on the whole disk and writes 4096 bytes there; the generator is seeded with OFFSET. The
# disk is opened with O_RDWR | O_SYNC and without O_DIRECT, so all of it goes through the kernel's page cache.
#
# As in the original, a seek past the end of the disk fails unnoticed, and that write lands behind the one before.
offset=$1

program() {
    perl -e '
        use Fcntl qw(O_RDWR O_SYNC SEEK_SET);
        my ($disk, $offset) = @ARGV;
        # random() of glibc: an additive generator of 31 words (TYPE_3), the first 310 numbers of which are dropped.
        my @words = ($offset || 1);
        for my $index (1 .. 30) {
            my $word = $words[$index - 1];
            my $next = 16807 * ($word % 127773) - 2836 * int($word / 127773);
            push @words, $next < 0 ? $next + 2147483647 : $next;
        }
        my ($front, $rear) = (3, 0);
        sub draw {
            my $sum = $words[$front] = ($words[$front] + $words[$rear]) % 4294967296;
            ($front, $rear) = (($front + 1) % 31, ($rear + 1) % 31);
            return $sum >> 1;
        }
        draw() for 1 .. 310;
        sysopen(my $file, $disk, O_RDWR | O_SYNC) or die "$disk: $!\n";
        my $block = "\0" x 4096;
        for (1 .. 1000) {
            sysseek($file, (draw() % 200000000) * 4096 + $offset * 512, SEEK_SET);
            die "$disk: $!\n" unless (syswrite($file, $block) // 0) == 4096;
        }
    ' "$DISK" "$offset"
}

drop_caches
measure_requests random-writes program
