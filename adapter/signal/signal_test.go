package signal

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

const maxAge = 15 * time.Second

func builtin(t testing.TB, name string) Rule {
	t.Helper()
	for _, r := range Builtin(maxAge) {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no built-in rule %s", name)
	return Rule{}
}

func TestMilliNeverWrapsNorVanishes(t *testing.T) {
	const most = math.MaxInt64 - 1023 // as a float64
	for v, want := range map[float64]int64{
		0: 0, 1: 1000, .0004: 1, -.0004: -1, .0015: 2, 1e300: most, -1e300: -most, math.Inf(1): most, 9.3e15: most, MaxValue: MaxValue * 1000,
	} {
		if got := Milli(v); got != want {
			t.Errorf("Milli(%g) = %d, want %d", v, got, want)
		}
	}
}

func TestValidateSaysEverything(t *testing.T) {
	err := Rule{Name: "a b", Sources: []Source{{Metric: "\xff", Idle: &Idle{By: []string{""}}}}, Minimum: 1, Window: -1}.Validate()
	for _, field := range []string{"name:", "subject:", "duplicates:", "perPod:", "perWorkload:", "maximum:", "maxAge:", "window:", "sources[0].metric:", "sources[0].idle.by[0]:"} {
		if err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%v lacks %s", err, field)
		}
	}
}

// Of a workload scaled to zero a sum is 0; an average has no answer.
func TestAWorkloadScaledToZero(t *testing.T) {
	for _, rule := range Builtin(maxAge) {
		amount := slices.Contains([]string{"queue_depth", "requests_running"}, rule.Name)
		if zero := rule.AtZero; amount != (zero != nil) || amount && *zero != 0 {
			t.Errorf("%s: %v, want 0: %t", rule.Name, zero, amount)
		}
	}
}
