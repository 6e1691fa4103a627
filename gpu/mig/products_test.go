package mig

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/internal/golden"
)

// TestEveryProduct compares all tables with a file, a line a product as nodes publish it: the
// placements that nvidia-smi lists for each kind of GPU, and the names that each product's
// driver prints. Those of B300 and GB300 are inferred.
func TestEveryProduct(t *testing.T) {
	var b strings.Builder
	for _, model := range Models() {
		if tab, ok := ForModel(model); ok {
			fmt.Fprintln(&b, tab.Spec())
		}
	}
	golden.Equal(t, "testdata/products.txt", b.String())
}

// TestLookup: compute slices and attributes must agree, memory is rounded as by
// other drivers. Where the name has no memory it is the profile with the least.
func TestLookup(t *testing.T) {
	for _, c := range []struct{ model, name, want string }{
		{"A100-80GB", "4g.39gb", "4g:4"},
		{"A100-80GB", "7g.79gb", "7g:8"},
		{"H100-80GB", "3g.39gb", "3g:4"},
		{"H100-NVL-94GB", "4g.48gb", "4g:4"},
		{"GH200-96GB", "7g.94gb", "7g:8"},
		{"H200-141GB", "1g.36gb", "1g:2"},
		{"GB200-186GB", "7g.189gb", "7g:8"},
		{"GB200-186GB", "1g.24gb+me", "1g+me:1"},
		{"A100-40GB", "1g.6gb", "1g:1"},
		{"H100-80GB", "1g.10gb.me", "1g+me:1"},
		{"H100-80GB", "1g", "1g:1"},
		{"H100-80GB", "1g+me", "1g+me:1"},
		{"RTX-PRO-6000-Blackwell-96GB", "1g.24gb.me.all", "1g+me.all:3"},
		{"RTX-PRO-6000-Blackwell-96GB", "1g.24gb-me", "1g-me:3"},
		{"RTX-PRO-6000-Blackwell-96GB", "2g.48gb.gfx", "2g+gfx:6"},
	} {
		tab, _ := ForModel(c.model)
		if p, err := tab.Lookup(c.name); err != nil || p.String() != c.want {
			t.Errorf("%s %s: got %s, %v, want %s", c.model, c.name, p, err, c.want)
		}
	}
	for _, c := range [][2]string{{"A100-40GB", "3g.40gb"}, {"A100-80GB", "3g.20gb"}, {"H100-80GB", "6g.80gb"}, {"A30-24GB", "4g.24gb+me"}} {
		tab, _ := ForModel(c[0])
		if p, err := tab.Lookup(c[1]); err == nil {
			t.Errorf("%s %s: is %s, and should be none", c[0], c[1], p)
		}
	}
}

// most is how many instances of p a GPU can have.
func most(t *Table, p Profile) int {
	e, _ := t.find(p)
	return e.max
}
