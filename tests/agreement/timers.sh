#!/bin/bash
# Operations whose time the kernel determines: a timeout, the journal's commit after 5 s, and the write-back
# of data that has been dirty for 30 s.

# Waits until the kernel has been up for 10.25 s, or 26.25 s, and so on every 16 s. The kernel commits at
# whole seconds, and its timers of some seconds have a granularity of 64 ticks of 10 ms: the two coincide
# every 16 s.
meet_the_kernel() {
    perl -e 'for (;;) {
        open my $uptime, "<", "/proc/uptime" or die;
        my ($up) = split " ", <$uptime>;
        last if $up >= 10.25 && int(($up - 10.25) * 10) % 160 == 0;
        select undef, undef, undef, 0.005;
    }'
}

# Writes a file of this many bytes, and prints when the first write reached the drive, and when all of it was
# there.
arrivals() {
    perl -MTime::HiRes=time -e '
        my ($bytes) = @ARGV;
        sub written { open my $stat, "<", "/sys/block/vda/stat" or die; (split " ", <$stat>)[6] }
        my ($before, $began, $first) = (written(), time);
        open my $file, ">", "$ENV{MNT}/file" or die;
        syswrite($file, "x" x $bytes) == $bytes or die;
        close $file;
        until ((written() - $before) * 512 >= $bytes) {
            $first //= time - $began if written() > $before;
            select undef, undef, undef, 0.01;
            die "nothing was written for 90 s\n" if time - $began > 90;
        }
        printf "%.3f %.3f\n", $first // die("all of it came at once\n"), time - $began' "$1"
}

make_file_system ext4
mount_it ext4
sync
measure timeout timeout 3 sleep 10 || [[ $? = 124 ]]
# By then the kernel has found nothing dirty, and no longer checks every 5 s.
meet_the_kernel
read -r commit data <<<"$(arrivals 4194304)"
result commit "$commit"
result write-back "$data"
unmount
