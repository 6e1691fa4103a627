package preview_test

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/boards"
	"github.com/gpuscale/gpuscale/dashboards/eval"
	"github.com/gpuscale/gpuscale/dashboards/preview"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
)

// nothing is a Prometheus without series.
func nothing() eval.Source { return memstore.Over(storage.QueryableFunc(empty)) }

func empty(_, _ int64) (storage.Querier, error) { return storage.NoopQuerier(), nil }

// evil is the value of a label, which must be shown as text.
const evil = `</text><script>alert(1)</script>"'&`

var errRefused = errors.New("connection refused")

// Every board is drawn over a source without data, one whose labels are hostile, and one that fails.
// Without data it shows n/a and has no green; a failing source shows its error in each panel.
func TestBoards(t *testing.T) {
	for _, b := range boards.All() {
		for what, src := range map[string]eval.Source{"nothing": nothing(), "hostile": fake{value: evil}, "failing": fake{err: errRefused}} {
			svg := preview.Board(t.Context(), src, b, preview.Window(time.Unix(1_700_000_000, 0), time.Hour, 15*time.Second))
			wellFormed(t, b.UID, svg)
			for _, m := range drawn.FindAllStringSubmatch(svg, -1) {
				if m[1] == m[2] { // the answers have one point
					t.Errorf("%s: a series of one point has no width: %s", b.UID, m[0])
				}
			}
			if !strings.Contains(svg, preview.Label) || strings.Contains(svg, "<script") {
				t.Errorf("%s, %s: not marked as a preview, or a label is an element", b.UID, what)
			}
			if what == "nothing" && (!strings.Contains(svg, ">"+board.NA+"<") || strings.Contains(svg, "var(--good)")) {
				t.Errorf("%s does not show %s, or is green somewhere", b.UID, board.NA)
			}
			if printed := strings.Count(svg, errRefused.Error()); what == "failing" && printed < len(b.Layout())-len(b.Rows) {
				t.Errorf("%s: the error is shown %d times", b.UID, printed)
			}
		}
	}
}

// drawn matches a line or an area, with the first two abscissas.
var drawn = regexp.MustCompile(`points="([^",]+),\S+ ([^",]+),[^"]*"`)

func wellFormed(t *testing.T, name, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Errorf("%s is not XML: %v", name, err)
			return
		}
	}
}

// fake answers every query with one series, whose labels all have one value, or with an error.
type fake struct {
	value string
	err   error
}

func (f fake) Query(_ context.Context, _ string, at time.Time) (prom.Vector, error) {
	labels := map[string]string{}
	for _, name := range []string{"namespace", "pod", "node", "gpu", "pool", "reason", "state", "place", "slice", "tenant", "hpa", "kind", "cause", "profile", "verb", "model"} {
		labels[name] = f.value
	}
	return prom.Vector{{Labels: prom.FromMap(labels), Value: 1}}, f.err
}

func (f fake) Range(ctx context.Context, query string, _, to time.Time, _ time.Duration) ([]prom.Line, error) {
	v, err := f.Query(ctx, query, to)
	return []prom.Line{{Labels: v[0].Labels, Points: []prom.Point{{Time: to, Value: 1}}}}, err
}

func TestPages(t *testing.T) {
	mux := http.NewServeMux()
	preview.Routes(mux, nothing(), boards.All(), 15*time.Second)
	for _, c := range []struct {
		path string
		code int
		has  string
	}{
		{"/", http.StatusFound, ""},
		{"/gpuscale-overview", http.StatusOK, preview.Label},
		{"/gpuscale-mig?since=5m", http.StatusOK, `<section title="Now`},
		{"/gpuscale-mig", http.StatusOK, `aria-current="true">30m</a>`},
		{"/gpuscale-mig?since=6h", http.StatusOK, `aria-current="true">6h</a>`},
		{"/gpuscale-overview?since=1000h", http.StatusBadRequest, "since="},
		{"/gpuscale-overview?since=soon", http.StatusBadRequest, "since="},
		{"/nothing", http.StatusNotFound, ""},
	} {
		r := httptest.NewRecorder()
		mux.ServeHTTP(r, httptest.NewRequestWithContext(t.Context(), http.MethodGet, c.path, nil))
		if r.Code != c.code || !strings.Contains(r.Body.String(), c.has) {
			t.Errorf("%s: %d, want %d with %q", c.path, r.Code, c.code, c.has)
		}
		if outside.MatchString(r.Body.String()) {
			t.Errorf("%s loads something external", c.path)
		}
	}
}

var outside = regexp.MustCompile(`(src|href)="(https?:)?//`)
