# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Run in a guest by tests/vm/run: shows that guests have what later tests stand on.
#
#	one guest, two namespaces		two guests, one wire
#
#	 (root) v0 ======== v1 (B)		 one eth0 ======== eth0 two
#	 10.0.0.1  netem  10.0.0.2		 10.9.0.1   QEMU   10.9.0.2
#	        both sides					socket
rc=0
ip=/rt/ip
tc=/rt/tc

the_device() {
	ls /sys/class/net | grep -E '^(eth|en)' | head -1
}

wire_one() {
	$ip addr add 10.9.0.1/24 dev "$(the_device)" && $ip link set "$(the_device)" up || rc=1
	t_net serve 10.9.0.1 1000000 wire_between_guests || rc=1
}

wire_two() {
	$ip addr add 10.9.0.2/24 dev "$(the_device)" && $ip link set "$(the_device)" up || rc=1
	t_net send 10.9.0.1 1000000 || rc=1
}

namespaces() {
	$ip netns add B && $ip link add v0 type veth peer name v1 netns B &&
		$ip addr add 10.0.0.1/24 dev v0 && $ip link set v0 up &&
		$ip -n B addr add 10.0.0.2/24 dev v1 && $ip -n B link set v1 up || rc=1
	$ip netns exec B t_net send 10.0.0.1 3000000 >/dev/null &
	t_net serve 10.0.0.1 3000000 namespaces || rc=1
	wait
	$tc qdisc add dev v0 root netem delay 2ms loss 1% reorder 5% &&
		$ip netns exec B $tc qdisc add dev v1 root netem delay 2ms 1ms loss 1% duplicate 1% ||
		rc=1
	$ip netns exec B t_net send 10.0.0.1 300000 >/dev/null &
	t_net serve 10.0.0.1 300000 namespaces_with_loss || rc=1
	wait
}

case " $(cat /proc/cmdline) " in
*" wire "*) ;;
*)
	t_net numa 4 || rc=1
	namespaces
	exit $rc
	;;
esac
