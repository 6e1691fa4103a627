package agent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fixedDrivers are the first versions of each branch without CVE-2026-24197: when instances change,
// an older driver may corrupt or hang the GPU for all its users. Source: flatcar/Flatcar#2155,
// 2026-06.
var fixedDrivers = []string{"535.309.01", "580.159.03", "595.71.05"}

// fixed returns why a driver must not be used to change GPUs, nil if it may. A branch newer than
// the known ones is fixed.
func fixed(driver string, more []string) error {
	have, ok := parseVersion(driver)
	if !ok {
		return fmt.Errorf("driver %q: its version cannot be parsed, so it may have CVE-2026-24197; set allowUnfixedDriver: true to use it", driver)
	}
	newest := 0
	for _, text := range slices.Concat(fixedDrivers, more) {
		first, ok := parseVersion(text)
		if !ok {
			continue
		}
		if first[0] == have[0] && slices.Compare(have, first) >= 0 {
			return nil
		}
		newest = max(newest, first[0])
	}
	if have[0] > newest {
		return nil
	}
	return fmt.Errorf("driver %s has CVE-2026-24197 or may have it: update it (%s or newer of the branch), name it in fixedDrivers, or set allowUnfixedDriver: true",
		driver, strings.Join(fixedDrivers, ", "))
}

func parseVersion(text string) ([]int, bool) {
	if !driverVersion.MatchString(text) {
		return nil, false
	}
	var out []int
	for _, word := range strings.Split(text, ".") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return nil, false
		}
		out = append(out, n)
	}
	return out, true
}
