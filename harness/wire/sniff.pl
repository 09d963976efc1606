# sniff.pl PORT: every TCP packet over IPv4 to or from PORT in this network namespace, from before the first line of
# output on, to standard output; ends when standard input does. Linux on a 64-bit machine, NET_RAW; no modules.
#
# A record is: length of what follows (uint32), then "R" (ready) | "P" (packet: seconds and microseconds since the
# epoch as the kernel noted them, both int64, then the packet from its IP header on) | "S" (the end: packets seen and
# packets dropped by the kernel, uint32 each); all big-endian.
use strict;
use warnings;

my ($port) = @ARGV;
my ($AF_PACKET, $SOCK_DGRAM, $ETH_P_ALL, $SOL_SOCKET, $SOL_PACKET) = (17, 2, 3, 1, 263);
my ($SO_ATTACH_FILTER, $SO_RCVBUFFORCE, $SO_RCVBUF, $PACKET_STATISTICS, $SIOCGSTAMP) = (26, 33, 8, 6, 0x8906);

sub record {
    my $rest = pack('N', length $_[0]) . $_[0];
    while (length $rest) {
        my $written = syswrite STDOUT, $rest;
        exit 1 unless $written;
        substr $rest, 0, $written, '';
    }
}

# The kernel sorts out what belongs here: busy brokers would overrun us. Each line: code, jump if true, if false, value.
my @filter = (
    [0x30, 0, 0, 0], [0x54, 0, 0, 0xf0], [0x15, 0, 9, 0x40],    # IPv4
    [0x30, 0, 0, 9], [0x15, 0, 7, 6],                           # TCP
    [0x28, 0, 0, 6], [0x45, 5, 0, 0x1fff],                      # not a later fragment
    [0xb1, 0, 0, 0],                                            # behind the IP header:
    [0x48, 0, 0, 0], [0x15, 3, 0, $port],                       # from the port
    [0x48, 0, 0, 2], [0x15, 1, 0, $port],                       # to the port
    [0x06, 0, 0, 0],
    [0x06, 0, 0, 0xffffffff],
);
my $program = join '', map { pack 'SCCL', @$_ } @filter;

# Without a protocol a packet socket receives nothing, until it is bound.
socket(my $socket, $AF_PACKET, $SOCK_DGRAM, 0) or die "no packet socket: $!\n";
setsockopt($socket, $SOL_SOCKET, $SO_ATTACH_FILTER, pack('S x!8 P', scalar @filter, $program))
    or die "no packet filter: $!\n";
setsockopt($socket, $SOL_SOCKET, $SO_RCVBUFFORCE, pack('i', 1 << 24))
    or setsockopt($socket, $SOL_SOCKET, $SO_RCVBUF, pack('i', 1 << 24));
my $time = "\0" x 16;
ioctl $socket, $SIOCGSTAMP, $time;    # Asked once, the kernel notes times from then on.
bind($socket, pack('S n i S C C a8', $AF_PACKET, $ETH_P_ALL, 0, 0, 0, 0, '')) or die "no packets: $!\n";
record('R');

my $wanted = '';
vec($wanted, fileno(STDIN), 1) = vec($wanted, fileno($socket), 1) = 1;
while (1) {
    my $ready = $wanted;
    next if select($ready, undef, undef, undef) < 0;
    if (vec $ready, fileno($socket), 1) {
        defined recv($socket, my $packet, 1 << 18, 0) or next;
        ioctl($socket, $SIOCGSTAMP, $time) or $time = pack 'qq', time, 0;
        record('P' . pack('q>q>', unpack 'qq', $time) . $packet);
    } elsif (vec $ready, fileno(STDIN), 1) {
        last unless sysread STDIN, my $ignored, 1;
    }
}
my $statistics = getsockopt $socket, $SOL_PACKET, $PACKET_STATISTICS;
record('S' . pack('NN', defined $statistics ? unpack('LL', $statistics) : (0, 0)));
