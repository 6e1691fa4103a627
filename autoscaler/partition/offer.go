package partition

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// Offers reports whether a node advertises exactly these devices, as returned by Advertised.
// Drivers round memory in profile names differently ("mig-3g.39gb" is "mig-3g.40gb"), so names are
// compared as profiles.
func Offers(node *corev1.Node, want map[string]int64) bool {
	return SameOffer(Advertised(node), want)
}

// SameOffer reports whether two lists of devices by resource name are equal, regardless of the
// driver's spelling of profiles. Both are of one product.
func SameOffer(a, b map[string]int64) bool {
	total := int64(0)
	for name, n := range a {
		if sumOf(a, name) != sumOf(b, name) {
			return false
		}
		total += n
	}
	for _, n := range b {
		total -= n
	}
	return total == 0
}

// sumOf sums the devices with this name or another spelling of it.
func sumOf(devices map[string]int64, name string) int64 {
	profile, isMIG := mig.ProfileOfResource(name)
	total := int64(0)
	for other, n := range devices {
		q, ok := mig.ProfileOfResource(other)
		if other == name || isMIG && ok && mig.SameProfile(profile, q) {
			total += n
		}
	}
	return total
}
