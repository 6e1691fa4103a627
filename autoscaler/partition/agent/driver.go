package agent

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// fixedDrivers are the first of each branch that do not have CVE-2026-24197: when
// instances are changed, a driver before them may corrupt or hang the card for
// everybody on it. From flatcar/Flatcar#2155, 2026-06.
var fixedDrivers = []string{"535.309.01", "580.159.03", "595.71.05"}

// fixed says why a driver must not be used to change cards, nil for nothing. A
// branch after the last that is known was fixed from its beginning.
func fixed(driver string, more []string) error {
	have, ok := parseVersion(driver)
	if !ok {
		return fmt.Errorf("driver %q: its version cannot be read, so that it may have CVE-2026-24197; allowUnfixedDriver: true goes on all the same", driver)
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
	return fmt.Errorf("driver %s has CVE-2026-24197 or is not known not to: update it (%s or newer of the branch), name it in fixedDrivers, or set allowUnfixedDriver: true",
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
