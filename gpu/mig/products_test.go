package mig

import (
	"strings"
	"testing"

	"github.com/gpuscale/gpuscale/gpu"
)

// TestEveryProduct: each line of products.txt builds a table, which prints as that line, and has the memory of the product.
func TestEveryProduct(t *testing.T) {
	for model, line := range known {
		tab, ok := ForModel(model)
		product, _ := gpu.ParseProduct(model)
		switch {
		case !ok || tab == nil:
			t.Errorf("%s: its table does not build", model)
		case tab.Spec().String() != strings.TrimSpace(line) || tab.memoryMiB != product.MemoryMiB:
			t.Errorf("%s is %s, and has %d MiB", strings.TrimSpace(line), tab.Spec(), product.MemoryMiB)
		}
	}
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
}

func TestLookupRefuses(t *testing.T) {
	tab, _ := ForModel("H100-80GB")
	for name, want := range map[string]string{
		"3g.20gb":       `MIG profile "3g.20gb": the nearest on H100-80GB is 3g.40gb`,
		"5g.40gb":       `MIG profile "5g.40gb": H100-80GB has none with these compute slices and attributes`,
		"3g.40gb+me":    `MIG profile "3g.40gb+me": H100-80GB has none with these compute slices and attributes`,
		"1c.3g.40gb":    `MIG profile "1c.3g.40gb": is a compute instance, want a GPU instance as in 3g.40gb`,
		"3g.40":         `MIG profile "3g.40": want memory in gb, as in 3g.40gb`,
		"3g.0gb":        `MIG profile "3g.0gb": want memory in gb, as in 3g.40gb`,
		"":              `MIG profile "": want compute slices first, as in 3g.40gb`,
		"03g.40gb":      `MIG profile "03g.40gb": want compute slices first, as in 3g.40gb`,
		"99999g.40gb":   `MIG profile "99999g.40gb": want compute slices first, as in 3g.40gb`,
		"3g.40gb+":      `MIG profile "3g.40gb+": unknown attributes "+", want +me, +gfx, +me.all or -me`,
		"3g.40gb.x":     `MIG profile "3g.40gb.x": unknown attributes ".x", want +me, +gfx, +me.all or -me`,
		"3g.40gb+me,me": `MIG profile "3g.40gb+me,me": unknown attributes "+me,me", want +me, +gfx, +me.all or -me`,
	} {
		if _, err := tab.Lookup(name); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", name, err, want)
		}
	}
}

// TestExact: a pod's resource is matched by name, since the scheduler does not
// round.
func TestExact(t *testing.T) {
	tab, _ := ForModel("GB200-186GB")
	for name, ok := range map[string]bool{"3g.93gb": true, "3g.95gb": true, "1g.23gb.me": true, "3g.94gb": false, "3g": false, "x": false} {
		if _, got := tab.Exact(name); got != ok {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestResourceNames(t *testing.T) {
	for profile, resource := range map[string]string{
		"3g.40gb":        "nvidia.com/mig-3g.40gb",
		"1g.10gb+me":     "nvidia.com/mig-1g.10gb.me",
		"1g.24gb+gfx":    "nvidia.com/mig-1g.24gb.gfx",
		"1g.24gb+me.all": "nvidia.com/mig-1g.24gb.me.all",
		"1g.24gb-me":     "nvidia.com/mig-1g.24gb-me",
	} {
		if got := ResourceName(profile); got != resource {
			t.Errorf("ResourceName(%s) = %s", profile, got)
		}
		if got, ok := ProfileOfResource(resource); !ok || got != profile {
			t.Errorf("ProfileOfResource(%s) = %s, %v", resource, got, ok)
		}
	}
	for _, resource := range []string{"nvidia.com/gpu", "nvidia.com/mig-3g.40gb.shared", "nvidia.com/mig-", "nvidia.com/mig-3g", "cpu"} {
		if got, ok := ProfileOfResource(resource); ok {
			t.Errorf("ProfileOfResource(%s) = %s", resource, got)
		}
	}
}

// FuzzProfileName: a name that is read prints as one that means the same, alone
// and as a resource.
func FuzzProfileName(f *testing.F) {
	for _, s := range []string{"3g.40gb", "1g.10gb+me", "1g.10gb.me", "1g.24gb-me", "1g.24gb.me.all", "1g.24gb+me,gfx-me", "7g", "1c.3g.40gb", "0g.5gb", "1g.05gb", "9999g.9999gb", "1g.", "MIG 1g.5gb"} {
		f.Add(s)
	}
	tab, _ := ForModel("RTX-PRO-6000-Blackwell-96GB")
	f.Fuzz(func(t *testing.T, s string) {
		if p, err := tab.Lookup(s); err == nil && !tab.Has(p) {
			t.Fatalf("%q is %s, which is not there", s, p)
		}
		n, err := ParseName(s)
		if err != nil {
			if n != (Name{}) {
				t.Fatalf("%q: %v and %v", s, n, err)
			}
			return
		}
		if n.Compute < 1 || n.Compute > 9999 || n.GB < 0 || n.GB > 9999 {
			t.Fatalf("%q is %+v", s, n)
		}
		if again, err := ParseName(n.String()); err != nil || again != n {
			t.Fatalf("%q is %v, which is %v, %v", s, n, again, err)
		}
		if n.GB == 0 {
			return
		}
		if name, ok := ProfileOfResource(ResourceName(n.String())); !ok || name != n.String() {
			t.Fatalf("%q is %s, whose resource is %s, %v", s, n, name, ok)
		}
	})
}
