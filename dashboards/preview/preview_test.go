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

// Without data every board can be drawn, shows n/a and has no green.
func TestNothingIsKnown(t *testing.T) {
	w := preview.Window(time.Unix(1_700_000_000, 0), time.Hour, 15*time.Second)
	for _, b := range boards.All() {
		svg := preview.Board(t.Context(), nothing(), b, w)
		wellFormed(t, b.UID, svg)
		if !strings.Contains(svg, ">"+board.NA+"<") || !strings.Contains(svg, preview.Label) {
			t.Errorf("%s does not show %s, or not that it is a preview", b.UID, board.NA)
		}
		if strings.Contains(svg, "#3f8f35") {
			t.Errorf("%s is green somewhere", b.UID)
		}
	}
}

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

// Labels are untrusted: whatever is in them is text.
func TestHostileLabelsAreText(t *testing.T) {
	evil := `</text><script>alert(1)</script>"'&`
	for _, b := range boards.All() {
		svg := preview.Board(t.Context(), fake{value: evil}, b, preview.Window(time.Unix(1_700_000_000, 0), time.Hour, 15*time.Second))
		wellFormed(t, b.UID, svg)
		if strings.Contains(svg, "<script") {
			t.Errorf("%s lets a label be an element", b.UID)
		}
	}
}

var errRefused = errors.New("connection refused")

// A failing source shows its error in place of each panel.
func TestFailingSourceIsShown(t *testing.T) {
	for _, b := range boards.All() {
		svg := preview.Board(t.Context(), fake{err: errRefused}, b, preview.Window(time.Unix(1_700_000_000, 0), time.Hour, 15*time.Second))
		if printed, rows := strings.Count(svg, errRefused.Error()), len(b.Rows); printed < len(b.Layout())-rows {
			t.Errorf("%s: shown %d times", b.UID, printed)
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
		{"/gpuscale-mig?since=5m", http.StatusOK, "<svg"},
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
