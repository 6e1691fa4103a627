package watch

import (
	"testing"

	"github.com/gpuscale/gpuscale/sandbox/view"
)

func TestANodeIsCountedOnce(t *testing.T) {
	var f view.Figures
	countNodes(&f, []Node{
		{Name: "up", Given: true, Ready: true, Price: 1},
		{Name: "repartitioned", Given: true, Operation: "op", Price: 1},                    // its devices are gone for now
		{Name: "repartitioned-soon", Given: true, Ready: true, Operation: "op2", Price: 1}, // its devices are still there
		{Name: "boots", Price: 1},
		{Name: "lost", Given: true, Price: 1},
	})
	for what, c := range map[string]struct {
		got  func() (float64, bool)
		want float64
	}{"nodes": {f.Nodes.Get, 3}, "repartitioning": {f.Repartitioning.Get, 2}, "booting": {f.Booting.Get, 1}, "price": {f.PricePerHour.Get, 5}} {
		if n, ok := c.got(); !ok || n != c.want {
			t.Errorf("%s: got %v, %v, want %v", what, n, ok, c.want)
		}
	}
}
