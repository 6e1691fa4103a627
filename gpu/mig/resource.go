package mig

import "strings"

// resourcePrefix begins the device plugin's resource names under the mixed
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
