package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gpuscale/gpuscale/gpu/demand"
)

// TestCoresAreBounded: members of eight kinds (maxCores) may be unservable, and
// the gang is served by others; with one more kind it is not tried.
func TestCoresAreBounded(t *testing.T) {
	serves := func(bad int) bool {
		s := Snapshot{Now: noon, Pools: []Pool{{Name: "p", Max: 4, Template: Template{GPUs: burstGPUs()}}}}
		add := func(name string, gpus int) {
			s.Pods = append(s.Pods, Pod{Namespace: "a", Name: name, Gang: "a/g", GangMin: 2, Unschedulable: true, Created: noon, PendingSince: noon,
				Demand: demand.Demand{GPUs: gpus, Vendor: "nvidia"}})
		}
		for i := range bad {
			add(fmt.Sprintf("bad-%02d", i), 9+i)
		}
		add("good-0", 1)
		add("good-1", 1)
		return slices.ContainsFunc(Make(s, DefaultPolicy()).Verdicts, func(v Verdict) bool { return v.Kind == KindGang && v.Reason == GangServed })
	}
	if !serves(8) {
		t.Errorf("%d kinds that fit nowhere keep a gang from being served", 8)
	}
	if serves(9) {
		t.Errorf("more than %d combinations are tried", 8)
	}
}
