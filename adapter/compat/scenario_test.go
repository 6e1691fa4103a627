package compat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/model/labels"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata/fake"
	"k8s.io/metrics/pkg/apis/custom_metrics"
	cma "sigs.k8s.io/custom-metrics-apiserver/pkg/provider"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/adapter/signal"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/prom/memstore"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestScenarios runs testdata/scenarios/*.txt, in which it is ten minutes after the first scrape:
//
//	load            series in promtool's notation, a value each 15 s
//	exist           pods, a namespace and their names each line
//	rules           a file of prometheus-adapter, whose series are not listed yet; samples older than 2m
//	                are missing
//	list            lists those that are due, and prints what each rule serves, or why not; after=D is
//	                the time since the last list, refused=PREFIX refuses the listing of selectors that
//	                begin so, and takes=D is how long that takes
//	ask             answers each line: RESOURCE NS NAME METRIC [SELECTOR], with NAME * for all, and
//	                external NS METRIC [SELECTOR]. fails=unavailable or fails=bad is what Prometheus
//	                answers meanwhile, later=D how long after its last answer the request comes
//
// -rewrite writes the outputs again.
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/scenarios", func(t *testing.T, path string) {
		s := &scenario{t: t, pods: map[string][]string{}, questions: map[string]bool{}, answers: map[string]*signal.Table{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "load":
				s.data = load(t, d.Input)
			case "exist":
				for line := range strings.Lines(d.Input) {
					words := strings.Fields(line)
					s.pods[words[0]] = words[1:]
				}
			case "rules":
				f, err := Parse("pa.yaml", []byte(d.Input))
				require.NoError(t, err)
				s.provider = New(Options{ConfigFile: "pa.yaml", MaxAge: 2 * time.Minute}, f, Sources{Watcher: s, Lister: s, Pods: s, Objects: objects(t), Mapper: kinds()}, slog.New(slog.DiscardHandler))
				s.provider.now = func() time.Time {
					s.mu.Lock()
					defer s.mu.Unlock()
					return s.now
				}
			case "list":
				var after time.Duration
				s.refused, s.takes = "", 0
				d.MaybeScanArgs(t, "after", &after)
				d.MaybeScanArgs(t, "refused", &s.refused)
				d.MaybeScanArgs(t, "takes", &s.takes)
				s.now = s.listed.Add(after)
				return s.list()
			case "ask":
				return s.ask(d)
			default:
				d.Fatalf(t, "no such command: %s", d.Cmd)
			}
			return ""
		})
	})
}

// scenario is what the provider reads from.
type scenario struct {
	provider.Pods // all methods but Ready and Select
	t             *testing.T
	data          memory
	pods          map[string][]string
	provider      *Provider
	refused       string
	takes         time.Duration
	listed        time.Time
	failure       error
	questions     map[string]bool
	answers       map[string]*signal.Table // the last good answer to each question

	mu    sync.Mutex // guards what follows: listings are parallel
	lists int
	now   time.Time
}

// asked is the time of Prometheus' answers; the provider's clock is an hour ahead.
const asked = 10 * time.Minute

// Watch evaluates at once what the cache would keep up to date.
func (s *scenario) Watch(_ context.Context, q cache.Question, namespace string) (cache.State, error) {
	about := q.Version
	if q.Namespace == nil { // then each namespace has its own query
		about += namespace
	}
	s.questions[about] = true
	about += "\xff" + namespace
	if s.failure != nil {
		return cache.State{Table: cmp.Or(s.answers[about], q.Empty), Failure: s.failure}, nil
	}
	v, err := s.data.query(s.t, q.Queries(false, []string{namespace})[0], asked)
	if err != nil {
		return cache.State{Table: q.Empty, Failure: fmt.Errorf("%w: %w", prom.ErrBadQuery, err)}, nil
	}
	answered := epoch.Add(asked + time.Hour)
	s.answers[about], _ = q.Empty.Read(cache.Samples(v), signal.Reading{Evaluated: epoch.Add(asked), Now: answered})
	return cache.State{Table: s.answers[about], At: answered}, nil
}

// Series implements Lister over the loaded series.
func (s *scenario) Series(_ context.Context, selector string, _ time.Time) ([]prom.Family, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if s.refused != "" && strings.HasPrefix(selector, s.refused) {
		s.now = s.now.Add(s.takes)
		return nil, prom.ErrUnavailable
	}
	matchers, err := signal.Parser.ParseMetricSelector(selector)
	if err != nil {
		return nil, err
	}
	var found []prom.Family
	for _, one := range s.data.Data.(memstore.Series) {
		if memstore.Matches(one.Labels(), matchers) {
			family := prom.Family{Name: one.Labels().Get(labels.MetricName)}
			one.Labels().DropReserved(func(n string) bool { return n == labels.MetricName }).Range(func(l labels.Label) { family.Labels = append(family.Labels, l.Name) })
			found = append(found, family)
		}
	}
	return found, nil
}

func (*scenario) Ready() error { return nil }

func (s *scenario) Select(namespace string, _ k8slabels.Selector) []string { return s.pods[namespace] }

// objects are the Services api and web of namespace shop.
func objects(t testing.TB) *fake.FakeMetadataClient {
	t.Helper()
	scheme := fake.NewTestScheme()
	require.NoError(t, metav1.AddMetaToScheme(scheme))
	service := func(name string) runtime.Object {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	}
	return fake.NewSimpleMetadataClient(scheme, service("web"), service("api"))
}

func (s *scenario) list() string {
	var out strings.Builder
	s.lists = 0
	again := s.provider.relist(s.t.Context())
	s.listed = s.now
	fmt.Fprintf(&out, "%d listed, again in %s\n", s.lists, again)
	for _, r := range s.provider.Rules() {
		fmt.Fprintf(&out, "%s serves %s\n", r.Name, strings.Join(r.Metrics, ", "))
		for _, problem := range r.Problems {
			fmt.Fprintf(&out, "%s: %s\n", r.Name, problem)
		}
	}
	return out.String()
}

func (s *scenario) ask(d *datadriven.TestData) string {
	var fails string
	var later time.Duration
	d.MaybeScanArgs(s.t, "later", &later)
	s.failure, s.now = nil, epoch.Add(asked+time.Hour+later)
	if d.MaybeScanArgs(s.t, "fails", &fails) {
		s.failure = map[string]error{
			"unavailable": fmt.Errorf("%w: HTTP 502", prom.ErrUnavailable), "bad": fmt.Errorf("%w: many-to-many", prom.ErrBadQuery),
		}[fails]
	}
	clear(s.questions)
	var out strings.Builder
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		text, err := s.answer(strings.Fields(line))
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			text = fmt.Sprintf("%d %s", status.Status().Code, err)
		}
		fmt.Fprintf(&out, "%s: %s\n", line, text)
	}
	fmt.Fprintf(&out, "%d questions\n", len(s.questions))
	return out.String()
}

func (s *scenario) answer(words []string) (string, error) {
	p, everything := s.provider, k8slabels.Everything()
	if words[0] == "external" {
		namespace, metric, selector := words[1], words[2], strings.Join(words[3:], " ")
		got, err := p.GetExternalMetric(s.t.Context(), namespace, selectorOf(s.t, selector), cma.ExternalMetricInfo{Metric: metric})
		if err != nil {
			return "", err
		}
		if len(got.Items) != 1 || got.Items[0].MetricName != metric {
			s.t.Errorf("%+v", got.Items)
		}
		return got.Items[0].Value.String() + s.age(got.Items[0].Timestamp.Time), nil
	}
	namespace, name, selector := words[1], words[2], selectorOf(s.t, strings.Join(words[4:], " "))
	info := cma.CustomMetricInfo{GroupResource: schema.ParseGroupResource(words[0]), Namespaced: namespace != "-", Metric: words[3]}
	if name != "*" {
		v, err := p.GetMetricByName(s.t.Context(), types.NamespacedName{Namespace: strings.Trim(namespace, "-"), Name: name}, info, selector)
		if err != nil {
			return "", err
		}
		return s.item(*v), nil
	}
	got, err := p.GetMetricBySelector(s.t.Context(), namespace, everything, info, selector)
	if err != nil {
		return "", err
	}
	var all []string
	for _, i := range got.Items {
		all = append(all, s.item(i))
	}
	return strings.Join(all, ", "), nil
}

func (s *scenario) item(v custom_metrics.MetricValue) string {
	text := fmt.Sprintf("%s %s=%s", v.DescribedObject.Kind, v.DescribedObject.Name, v.Value.String())
	if v.WindowSeconds != nil {
		text += fmt.Sprintf(" over %ds", *v.WindowSeconds)
	}
	return text + s.age(v.Timestamp.Time)
}

func (s *scenario) age(at time.Time) string {
	if age := s.now.Sub(at); age != 0 {
		return fmt.Sprintf(" %s old", age)
	}
	return ""
}
