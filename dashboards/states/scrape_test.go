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
		{ // an empty label takes the target's away, or is nothing
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

// What is no longer exposed ends at the scrape that misses it; what comes back goes
// on; a target that is gone ends altogether.
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

func TestBadStories(t *testing.T) {
	for text, want := range map[string]string{
		"at soon":        "line 1: at soon: want a duration",
		"at 5m\nat 4m":   "line 2: at 4m: want a duration after 5m0s",
		"at 31m":         "before 30m0s",
		"gpu x/0":        "at 0s: line 1: gpu",
		"xid n1/0":       "want a card and a code",
		"xid n1/0 no":    "invalid syntax",
		"ecc n1/0 4":     "want a card, single-bit and double-bit errors",
		"ecc n1/0 4 x":   "invalid syntax",
		"notice n1":      "there is no such node",
		"hpa a/b max":    "want KEY=VALUE",
		"hpa a/b wide=3": "an hpa has no wide",
		"exporters":      "want words behind exporters",
	} {
		told, err := parseStory(text)
		if err == nil {
			c := newCluster()
			for _, ch := range told.chapters {
				if err = c.happen(ch); err != nil {
					break
				}
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func FuzzParseStory(f *testing.F) {
	for _, s := range []string{"at 5m\nxid n/0 79\nhpa a/b min=1", "node n gone", "at 1s\nexporters down\nat 2s\nexporters up"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		told, err := parseStory(text)
		if err != nil {
			return
		}
		last := time.Duration(-1)
		for _, ch := range told.chapters {
			if ch.at <= last && last >= 0 || ch.at >= Length {
				t.Errorf("chapters at %s and %s", last, ch.at)
			}
			last = ch.at
		}
	})
}
