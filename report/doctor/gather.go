package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/query"
)

// Options of Gather.
type Options struct {
	Kube *rest.Config
	// Timeout of one request to the API server; zero for none.
	Timeout time.Duration
	// Prometheus is nil if there is none; NoPrometheus says why.
	Prometheus   *prom.Client
	NoPrometheus string
	// Advise adds to an error of Prometheus what to do about it.
	Advise func(error) error
	// Match is put into every selector.
	Match string
	// Namespace is where to look for gpuscale.
	Namespace string
	// Kubectl has the flags that kubectl needs to reach the same cluster.
	Kubectl []string
	// Sources to read.
	Sources []*Source
}

// Bounds of the requests to an API server.
const (
	atOnce     = 4 // lists at the same time
	pageSize   = 500
	maxObjects = 20_000    // of one kind
	maxNamed   = 50        // objects of one kind that are read one by one
	maxBytes   = 128 << 20 // of one page
)

var errTooMany = fmt.Errorf("only the first %d were read", maxObjects)

// reading is one run of Gather.
type reading struct {
	Options
	ctx   context.Context
	kube  *rest.RESTClient
	facts *Facts
	clock sync.Once
	mu    sync.Mutex // guards the maps of facts
}

// Gather reads the sources. It returns an error if the API server does not answer or does not authenticate
// the caller. Everything less is recorded in Facts.Missing.
func Gather(ctx context.Context, o Options) (*Facts, error) {
	f := newFacts()
	f.Namespace, f.Kubectl = o.Namespace, o.Kubectl
	r := &reading{Options: o, ctx: ctx, facts: f}
	if err := r.connect(); err != nil {
		return nil, fmt.Errorf("preparing the connection to the API server: %w", err)
	}
	switch page, err := r.get("/version", nil); {
	case apierrors.IsUnauthorized(err):
		return nil, kube.Advised(err)
	case err != nil && !apierrors.IsForbidden(err):
		return nil, fmt.Errorf("asking the API server: %w", err)
	case err == nil && !json.Valid(page):
		return nil, errors.New("asking the API server: its answer is not JSON; it may be a login page")
	}
	var g errgroup.Group
	g.SetLimit(1 + atOnce)
	g.Go(func() error { r.ask(); return nil })
	for _, s := range o.Sources {
		if s.take != nil && s.named == nil {
			g.Go(func() error { r.read(s); return nil })
		}
	}
	_ = g.Wait()                  // it returns no error
	for _, s := range o.Sources { // sources whose objects the lists name
		if s.named != nil {
			r.read(s)
		}
	}
	f.Took = time.Since(f.Local)
	return f, nil
}

// connect makes a client that only sends GET requests. Its first answer sets the clock.
func (r *reading) connect() error {
	cfg := rest.CopyConfig(r.Kube)
	cfg.WarningHandler = rest.NoWarnings{}
	cfg.QPS, cfg.NegotiatedSerializer = -1, scheme.Codecs.WithoutConversion() // the bounds of objects bound the calls
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return bounded{r, next} })
	var err error
	r.kube, err = rest.UnversionedRESTClientFor(cfg)
	return err
}

// bounded bounds the size of answers, and reads the API server's clock from the first answer.
type bounded struct {
	*reading
	next http.RoundTripper
}

func (c bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	asked := time.Now()
	resp, err := c.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxBytes)
	c.clock.Do(func() {
		// The header has whole seconds, so the middle of that second is used.
		if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
			c.facts.Now, c.facts.Local = at.Add(time.Second/2), asked.Add(time.Since(asked)/2)
		}
	})
	return resp, nil
}

func (r *reading) get(path string, values url.Values) ([]byte, error) {
	req := r.kube.Get().AbsPath(path).SetHeader("Accept", "application/json").MaxRetries(0).Timeout(r.Timeout)
	for name := range values {
		if v := values.Get(name); v != "" {
			req.Param(name, v)
		}
	}
	answer := req.Do(r.ctx)
	if err := answer.Error(); err != nil { // it has the server's own message, which Raw lacks
		return nil, err
	}
	return answer.Raw()
}

// read reads a source: a list, from the first of its paths that exists; or objects, and lists of namespaces,
// that other facts name. A missing object is no error: it is just absent from the facts.
func (r *reading) read(s *Source) {
	keys, one := []key{{}}, strings.HasSuffix(s.Paths[0], "/%s")
	if s.named != nil {
		keys = slices.Compact(slices.SortedFunc(slices.Values(s.named(r.facts)), func(a, b key) int {
			return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
		}))
	}
	if n := len(keys); n > maxNamed {
		r.unknown(s, fmt.Sprintf("only the first %d of %d %s were read", maxNamed, n, s.Name))
		keys = keys[:maxNamed]
	}
	var all any
	for _, k := range keys {
		values := url.Values{}
		if s == EndpointSlices.Source {
			values.Set("labelSelector", labelService+"="+k.name)
			k.name = ""
		}
		names := slices.DeleteFunc([]any{k.namespace, k.name}, func(n any) bool {
			return n == "" || n == "." || n == ".." || strings.ContainsAny(n.(string), "/?#%") // a name like this would change the path
		})
		if strings.Count(s.Paths[0], "%s") != len(names) {
			continue
		}
		var err error
		for _, path := range s.Paths {
			if all, err = r.pages(s, all, fmt.Sprintf(path, names...), one, values); !apierrors.IsNotFound(err) {
				break
			}
		}
		if !apierrors.IsNotFound(err) || !s.Optional && !one {
			r.missing(s, err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.objects[s] = all
}

// pages reads one object, or the pages of a list up to the bound, and adds them to all.
func (r *reading) pages(s *Source, all any, path string, one bool, values url.Values) (any, error) {
	if !one {
		values.Set("limit", fmt.Sprint(pageSize))
		values.Set("fieldSelector", s.Fields)
	}
	for objects := 0; ; {
		raw, err := r.get(path, values)
		if err != nil {
			return all, err
		}
		if one {
			raw = slices.Concat([]byte(`{"items":[`), raw, []byte("]}"))
		}
		var next string
		var n int
		all, next, n, err = s.take(all, raw)
		if objects += n; err != nil || next == "" {
			return all, err
		}
		if objects >= maxObjects {
			return all, errTooMany
		}
		values.Set("continue", next)
	}
}

// denied begins the reason of a source that the caller may not read.
const denied = "you lack permission to "

// missing records why a source was not read.
func (r *reading) missing(s *Source, err error) {
	switch {
	case err == nil:
	case apierrors.IsForbidden(err):
		r.unknown(s, denied+s.Right())
	default:
		r.unknown(s, fmt.Sprintf("%s: %v", s.Name, err))
	}
}

func (r *reading) unknown(s *Source, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.facts.Missing[s] = clean(why, maxText)
}

// ask sends all queries to Prometheus, one after the other. It stops at the first failure to reach the
// server, so that an unreachable server costs one timeout, not twenty. Without an answer of one cluster to the first
// query the server is not asked further: nodes and pods of different clusters may have the same names.
func (r *reading) ask() {
	why := ""
	if r.Prometheus == nil {
		why = r.NoPrometheus
	}
	for _, s := range r.Sources {
		if s.Query == "" {
			continue
		}
		if why == "" {
			err := r.question(s)
			if err == nil {
				continue
			}
			if s != Clusters && !errors.Is(err, prom.ErrUnavailable) && r.ctx.Err() == nil {
				r.unknown(s, r.advised(err))
				continue
			}
			why = r.advised(err)
		}
		r.unknown(s, why)
	}
}

// advised is an error of Prometheus, cut so that the whole advice is kept.
func (r *reading) advised(err error) string {
	why := r.Advise(err).Error()
	if i := strings.LastIndexByte(why, '\n'); i >= 0 {
		why = clean(why[:i], maxText/2) + "; " + why[i+1:]
	}
	return "Prometheus: " + why
}

func (r *reading) question(s *Source) error {
	asked := time.Now()
	v, err := r.Prometheus.Query(r.ctx, Written(s.Query, r.Match), time.Time{})
	if err != nil {
		return err
	}
	r.facts.Answers[s] = v
	switch s {
	case Clusters:
		return query.OneCluster(v)
	case Clock:
		r.facts.Asked = asked.Add(time.Since(asked) / 2)
	}
	return nil
}

// selector matches $name in a query, where name is a series, and the opening brace of its matchers.
var selector = regexp.MustCompile(`\$([a-zA-Z_][a-zA-Z0-9_:]*)(\{)?`)

// Written replaces $name in a query and adds the user's matchers to every selector.
func Written(query, match string) string {
	return selector.ReplaceAllStringFunc(query, func(found string) string {
		m := selector.FindStringSubmatch(found)
		switch {
		case match == "":
			return m[1] + m[2]
		case m[2] == "":
			return m[1] + "{" + match + "}"
		}
		return m[1] + "{" + match + ","
	})
}
