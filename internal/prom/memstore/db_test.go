package memstore_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"

	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

// Labels of a target and of its page that have one name are resolved as in Prometheus.
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
		for honor, want := range map[bool]labels.Labels{true: c.honoured, false: c.renamed} {
			var d memstore.DB
			d.Scrape(noon, target, honor, []memstore.Exposed{{Labels: c.exposed, Value: 1}})
			if got := d.Named("")[0].Labels; !labels.Equal(got, want) {
				t.Errorf("honor_labels %v, %s: %s, want %s", honor, c.exposed, got, want)
			}
		}
	}
}

// A series that is no longer exposed ends at the first scrape without it; one that returns continues. All series of a
// removed target end.
func TestStaleness(t *testing.T) {
	var d memstore.DB
	for i, page := range []string{"a 1 b 1", "a 2", "a 3 b 3", "", ""} {
		var exposed []memstore.Exposed
		words := strings.Fields(page)
		for k := 0; k < len(words); k += 2 {
			v, err := strconv.ParseFloat(words[k+1], 64)
			require.NoError(t, err)
			exposed = append(exposed, memstore.Exposed{Labels: labels.FromStrings(labels.MetricName, words[k]), Value: v})
		}
		d.Scrape(memstore.From(noon, step)(i, 0), labels.FromStrings("job", "j"), false, exposed)
	}
	for name, want := range map[string]string{"a": "1 2 3 end", "b": "1 end 3 end"} {
		var got []string
		for _, p := range d.Named(name)[0].Points {
			text := strconv.FormatFloat(p.F, 'g', -1, 64)
			if math.Float64bits(p.F) == value.StaleNaN {
				text = "end"
			}
			got = append(got, text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", name, got, want)
		}
	}
	if names := d.Without("a").Names(); len(names) != 1 || names[0] != "b" {
		t.Errorf("without a: %v", names)
	}
}
