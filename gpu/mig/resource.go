package mig

import "strings"

// resourcePrefix is how the device plugin names instances under the mixed
// strategy.
const resourcePrefix = "nvidia.com/mig-"

// ResourceName returns the extended resource of a profile under the mixed
// strategy: "1g.10gb+me" is "nvidia.com/mig-1g.10gb.me".
func ResourceName(profileName string) string {
	return resourcePrefix + strings.NewReplacer("+", ".", ",", ".").Replace(profileName)
}

// ProfileOfResource returns the driver's spelling of the profile whose resource
// this is: "nvidia.com/mig-1g.10gb.me" gives "1g.10gb+me". It is false for any
// other resource, shared replicas of an instance (".shared") included.
func ProfileOfResource(resource string) (name string, ok bool) {
	spelled, ok := strings.CutPrefix(resource, resourcePrefix)
	if !ok {
		return "", false
	}
	n, err := ParseName(spelled)
	if err != nil || n.GB == 0 {
		return "", false
	}
	return n.String(), true
}

// SplitProduct takes apart the node label nvidia.com/gpu.product under the
// single strategy: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb" is the product
// "NVIDIA-A100-SXM4-40GB" and the profile "1g.5gb" in the driver's spelling. A
// label without MIG gives enabled false. Cards that are not all equal
// ("…-MIG-INVALID", which advertises nothing) give enabled true and no profile.
func SplitProduct(label string) (product, profile string, enabled bool) {
	label = strings.TrimSuffix(label, "-SHARED")
	product, spelled, enabled := strings.Cut(label, "-MIG-")
	if !enabled {
		return product, "", false
	}
	n, err := ParseName(spelled)
	if err != nil || n.GB == 0 {
		return product, "", true
	}
	return product, n.String(), true
}

// SingleProduct returns the product label of a node whose cards are all cut into
// instances of one profile, the reverse of SplitProduct.
func SingleProduct(product, profileName string) string {
	return product + "-MIG-" + strings.NewReplacer("+", ".", ",", ".").Replace(profileName)
}
