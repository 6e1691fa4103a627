package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Synthetic describes a bursty conversation load.
//
// Arrivals are a Poisson process whose rate follows a short day: it starts at Base, rises to Peak over a
// tenth of the length, stays there for a third, and falls back. In addition there are bursts of up to half
// the rate, from a few seconds to a minute long. Prompt and answer lengths are log-normal with the median and
// spread of the Azure conversation trace of 2023 (prompts about 1,000 tokens with a long tail, answers about
// 130 to 400).
type Synthetic struct {
	Seed   uint64
	Length time.Duration
	Base   float64 // requests a second at the lowest
	Peak   float64 // requests a second at the plateau
}

// Make returns the trace; the same Synthetic gives the same trace. It fails if Length, Base or Peak is not
// positive.
func (s Synthetic) Make() (Trace, error) {
	if s.Length <= 0 || s.Length > MaxSpan || !(s.Base > 0) || !(s.Peak >= s.Base) || s.Peak > 1e4 {
		return Trace{}, fmt.Errorf("synthetic trace: need 0 < length <= %s and 0 < base <= peak <= 10000, got %+v", MaxSpan, s)
	}
	if s.Peak*1.5*s.Length.Seconds() > MaxRequests {
		return Trace{}, fmt.Errorf("synthetic trace: %s at up to %g requests a second is above %d requests", s.Length, s.Peak*1.5, MaxRequests)
	}
	rng := rand.New(rand.NewPCG(s.Seed, 0x67707573)) // second word: any constant
	bursts := s.bursts(rng)
	out := Trace{Name: fmt.Sprintf("synthetic, seed %d", s.Seed)}
	// Thinning: draw at the highest possible rate, and keep a part in proportion.
	most := s.Peak * 1.5
	for at := 0.0; ; {
		at += rng.ExpFloat64() / most
		if at >= s.Length.Seconds() {
			break
		}
		if rng.Float64()*most > s.rate(at)*bursts.factor(at) {
			continue
		}
		out.Requests = append(out.Requests, Request{
			At:        time.Duration(at * float64(time.Second)),
			Context:   tokens(rng, 928, 0.75, 14_050),
			Generated: tokens(rng, 170, 0.65, 1_000),
		})
	}
	if len(out.Requests) == 0 {
		return Trace{}, fmt.Errorf("synthetic trace: no request within %s", s.Length)
	}
	first := out.Requests[0].At
	for i := range out.Requests {
		out.Requests[i].At -= first
	}
	return out, nil
}

// rate is the rate without bursts, at a number of seconds since the start.
func (s Synthetic) rate(at float64) float64 {
	x := at / s.Length.Seconds()
	up := smooth((x - 0.15) / 0.10)
	down := smooth((x - 0.60) / 0.15)
	return s.Base + (s.Peak-s.Base)*(up-down)
}

// smooth goes from 0 to 1 while x does.
func smooth(x float64) float64 {
	x = math.Min(1, math.Max(0, x))
	return x * x * (3 - 2*x)
}

type burst struct{ from, to, factor float64 }

type bursts []burst

func (b bursts) factor(at float64) float64 {
	f := 1.0
	for _, one := range b {
		if at >= one.from && at < one.to {
			f = math.Max(f, one.factor)
		}
	}
	return f
}

func (s Synthetic) bursts(rng *rand.Rand) bursts {
	var out bursts
	for at := 0.0; at < s.Length.Seconds(); {
		at += 30 + rng.ExpFloat64()*180
		long := 5 + rng.Float64()*55
		out = append(out, burst{at, at + long, 1.1 + rng.Float64()*0.4})
		at += long
	}
	return out
}

func tokens(rng *rand.Rand, median, sigma float64, most int) int {
	n := int(median * math.Exp(sigma*rng.NormFloat64()))
	return min(max(n, 1), most)
}
