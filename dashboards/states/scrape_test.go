package states

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// The labels of a target and of what it exposes meet as in Prometheus.
func TestLabelsThatClash(t *testing.T) {
	target := labels.FromStrings("job", "j", "namespace", "system", "pod", "exporter")
	for _, c := range []struct{ exposed, honoured, renamed labels.Labels }{
		{
			labels.FromStrings("namespace", "chat", "gpu", "0"),
			labels.FromStrings("gpu", "0", "job", "j", "namespace", "chat", "pod", "exporter"),
			labels.FromStrings("exported_namespace", "chat", "gpu", "0", "job", "j", "namespace", "system", "pod", "exporter"),
		},
		{ // an empty label removes the target's, or is ignored
			labels.FromStrings("namespace", ""),
			labels.FromStrings("job", "j", "pod", "exporter"),
			labels.FromStrings("job", "j", "namespace", "system", "pod", "exporter"),
		},
	} {
		if got := honoured(c.exposed, target); !labels.Equal(got, c.honoured) {
			t.Errorf("honoured %s: %s, want %s", c.exposed, got, c.honoured)
		}
		if got := renamed(c.exposed, target); !labels.Equal(got, c.renamed) {
			t.Errorf("renamed %s: %s, want %s", c.exposed, got, c.renamed)
		}
	}
}

// A series that is no longer exposed ends at the scrape that misses it; one that returns
// continues; a removed target ends altogether.
func TestStaleness(t *testing.T) {
	r := newRecording()
	at := begin
	for _, text := range []string{"a 1\nb 1\n", "a 2\n", "a 3\nb 3\n"} {
		families, err := parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		r.scrape(at, "t", labels.FromStrings("job", "j"), families)
		at = at.Add(Every)
	}
	r.scrape(at, "t", labels.FromStrings("job", "j"), nil)
	at = at.Add(Every)
	r.gone(at, "t")
	for name, want := range map[string]string{"a": "1 2 3 end", "b": "1 end 3 end", "up": "1 1 1 0 end"} {
		var got []string
		for _, p := range r.plain.byName[name][0].points {
			text := strings.TrimSuffix(time.Duration(p.F()*1e9).String(), "s")
			if math.Float64bits(p.F()) == value.StaleNaN {
				text = "end"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
}
