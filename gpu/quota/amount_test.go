package quota

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestAmountSaturates(t *testing.T) {
	one, all := Amount{1, 1}, All()
	for _, c := range []struct {
		name      string
		got, want Amount
	}{
		{"∞ + 1", all.Add(one), all},
		{"1 + ∞", one.Add(all), all},
		{"∞ - 1", all.Sub(one), all},
		{"∞ - ∞", all.Sub(all), all},
		{"1 - ∞", one.Sub(all), Amount{math.MinInt64, math.MinInt64}},
		{"nearly ∞ + 1", Amount{Unlimited - 1, 3}.Add(Amount{5, 4}), Amount{Unlimited, 7}},
		{"1 - 3", one.Sub(Amount{3, 0}), Amount{-2, 1}},
		{"floor", Amount{-2, 1}.Floor(), Amount{0, 1}},
		{"min", Amount{2, 5}.Min(Amount{3, 4}), Amount{2, 4}},
		{"max", Amount{2, 5}.Max(Amount{3, 4}), Amount{3, 5}},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
	for want, a := range map[string]Amount{"∞": all, "∞+16 slices": {Unlimited, 16}, "nothing": {}, "1 GPU": {7, 8}, "2 GPUs": {14, 16}, "3+4 slices": {3, 4}, "14+8 slices": {14, 8}} {
		if got := a.String(); got != want {
			t.Errorf("%d and %d slices are %q, want %q", a.Compute, a.Memory, got, want)
		}
	}
	if (Amount{1, 9}).Fits(Amount{7, 8}) {
		t.Error("memory does not fit, and yet it fits")
	}
}

func TestAmountNeverWraps(t *testing.T) {
	number := rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{Unlimited, Unlimited - 1, math.MinInt64, 0, -1}))
	rapid.Check(t, func(r *rapid.T) {
		x, y := number.Draw(r, "x"), number.Draw(r, "y")
		exact := new(big.Int).Add(big.NewInt(x), big.NewInt(y))
		got := Amount{Compute: x}.Add(Amount{Compute: y}).Compute
		wrapped := exact.IsInt64() && got != exact.Int64() || !exact.IsInt64() && got != Unlimited && got != math.MinInt64
		if x != Unlimited && y != Unlimited && (wrapped || !exact.IsInt64() && (got > 0) != (exact.Sign() > 0)) {
			r.Fatalf("%d + %d = %d, want %d", x, y, got, exact)
		}
		if y >= 0 && (Amount{Compute: x}).Sub(Amount{Compute: y}).Compute > x {
			r.Fatalf("%d - %d grew", x, y)
		}
	})
}
