package gobuild

import (
	"debug/elf"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// NewestGlibc is the newest version of glibc that a binary may ask for:
// Debian 12's, which the images are made for. RHEL 9 has 2.34, Ubuntu 22.04 2.35.
var NewestGlibc = Glibc{2, 36}

// Glibc is a version of glibc.
type Glibc struct{ Major, Minor int }

func (g Glibc) String() string { return fmt.Sprintf("%d.%d", g.Major, g.Minor) }

func (g Glibc) newer(o Glibc) bool {
	return g.Major > o.Major || g.Major == o.Major && g.Minor > o.Minor
}

// CheckLinkage holds that a binary needs no libraries if it has no cgo, and no
// newer glibc than NewestGlibc if it has. One that was linked on a newer system
// starts there, and nowhere else.
func CheckLinkage(file string, cgo bool) error {
	f, err := elf.Open(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if !cgo {
		if len(libraries) > 0 {
			return fmt.Errorf("%s should be static and needs %s", file, strings.Join(libraries, ", "))
		}
		return nil
	}
	symbols, err := f.ImportedSymbols()
	if err != nil && !errors.Is(err, elf.ErrNoSymbols) {
		return fmt.Errorf("%s: %w", file, err)
	}
	needs, which := needed(symbols)
	if needs.newer(NewestGlibc) {
		return fmt.Errorf("%s needs glibc %s (for %s) and may need %s at most: link it on an older system", file, needs, which, NewestGlibc)
	}
	return nil
}

func needed(symbols []elf.ImportedSymbol) (newest Glibc, which string) {
	for _, s := range symbols {
		if g, ok := parseGlibc(s.Version); ok && g.newer(newest) {
			newest, which = g, s.Name
		}
	}
	return newest, which
}

// parseGlibc reads "GLIBC_2.34" and "GLIBC_2.2.5"; GLIBC_PRIVATE and other
// libraries' versions are none.
func parseGlibc(version string) (Glibc, bool) {
	v, ok := strings.CutPrefix(version, "GLIBC_")
	if !ok {
		return Glibc{}, false
	}
	parts := strings.Split(v, ".")
	if len(parts) < 2 {
		return Glibc{}, false
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	return Glibc{major, minor}, err1 == nil && err2 == nil
}
