package trust

import (
	"slices"
	"testing"
	"time"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/prom/promtest"
)

// TestAllow: a target may report on its own namespace, an exporter's on all.
func TestAllow(t *testing.T) {
	one := From([]string{"gpus"})
	for _, c := range []struct {
		about, target string
		by            Exporters
		want          bool
	}{
		{"", "tenant", one, true},
		{"tenant", "tenant", one, true},
		{"victim", "tenant", one, false},
		{"victim", "", one, false},
		{"victim", "gpus", one, true},
		{"victim", "gpus2", one, false},
		{"victim", "gpus", From(nil), false},
		{"victim", "tenant", From([]string{"gpus", "*"}), true},
	} {
		if got := c.by.Allow(c.about, c.target); got != c.want {
			t.Errorf("%q: a target in %q about %q: %v", c.by, c.target, c.about, got)
		}
	}
}

func TestValidate(t *testing.T) {
	errs := Validate("x", []string{"gpus", "*", "Not-a-Name", "a|b", ""})
	if len(errs) != 3 || errs[0].Error() != `x[2]: "Not-a-Name" is no namespace; "*" stands for all` {
		t.Errorf("errors %q", errs)
	}
}

// page has an honest exporter's series in "gpus" as Prometheus stores them, without honor_labels (a) and with it (b),
// and series of targets that are not an exporter's. by names the origin.
const page = `
age{by="a",node="a",namespace="gpus",job="e",instance="1"} 1
held{by="a",node="a",namespace="gpus",exported_namespace="chat",job="e",instance="1"} 1
age{by="b",node="b",namespace="gpus",job="e",instance="2"} 1
held{by="b",node="b",namespace="chat",job="e",instance="2"} 1
age{by="forged",node="a",namespace="tenant",job="p",instance="3"} 1
held{by="forged",node="a",namespace="tenant",job="p",instance="3"} 1
held{by="exported",node="a",namespace="tenant",exported_namespace="gpus",job="p",instance="3"} 1
age{by="exported",node="a",namespace="tenant",exported_namespace="gpus",job="p",instance="4"} 1
held{by="renamed",node="a",namespace="tenant",exported_job="e",exported_instance="1",job="p",instance="3"} 1
held{by="own job",node="a",namespace="tenant",job="e",instance="3"} 1
held{by="exported at an exporter",node="b",namespace="tenant",exported_namespace="gpus",job="e",instance="2"} 1
age{by="similar",node="a",namespace="gpus2",job="e",instance="5"} 1
held{by="similar",node="a",namespace="gpus2",job="e",instance="5"} 1
age{by="no namespace",node="a",job="e",instance="6"} 1
held{by="no namespace",node="a",job="e",instance="6"} 1
age{by="no target",node="a",namespace="gpus"} 1
held{by="no target",node="a",namespace="tenant"} 1
`

// TestSelectors: Prometheus' own engine selects the exporters' series, with and without honor_labels.
func TestSelectors(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	store := promtest.Load(t, page, memstore.Until(now, time.Minute), nil)
	all := []string{"a", "b", "exported", "exported at an exporter", "forged", "no namespace", "no target", "own job", "renamed", "similar"}
	for _, c := range []struct {
		trusted Exporters
		query   func(Exporters) string
		want    []string
	}{
		{From([]string{"gpus"}), age, []string{"a", "b", "no target"}},
		{From([]string{"gpus"}), held, []string{"a", "b"}},
		{From([]string{"elsewhere", "gpus"}), held, []string{"a", "b"}},
		{From([]string{"elsewhere"}), held, nil},
		{From(nil), age, nil},
		{From(nil), held, nil},
		{From([]string{"*"}), held, all},
	} {
		query := c.query(c.trusted)
		vector, err := store.Query(t.Context(), query, now)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		var got []string
		for _, s := range vector {
			got = append(got, s.Labels.Get("by"))
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", query, got, c.want)
		}
	}
}

// TestQueryOfTimestamps: timestamp returns the sample's own time only for a plain selector.
func TestQueryOfTimestamps(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	store := promtest.Load(t, page, memstore.Until(now, time.Minute), nil)
	query := From([]string{"gpus"}).Query("held", "age", func(s string) string { return "time() - timestamp(" + s + ")" })
	vector, err := store.Query(t.Context(), query, now.Add(3*time.Minute))
	if err != nil || len(vector) != 2 {
		t.Fatalf("%s: %v, %v; want two series", query, vector, err)
	}
	for _, s := range vector {
		if s.Value != 180 {
			t.Errorf("%v is 3 minutes old", s)
		}
	}
}

func age(e Exporters) string { return e.Selector("age") }
func held(e Exporters) string {
	return e.Query("held", "age", func(selector string) string { return selector })
}
