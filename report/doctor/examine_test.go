package doctor

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/require"
)

// now is the API server's clock in all scenarios.
var now = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// TestExamine plays scenarios: facts, then what checks find in them.
//
//	base [without=KIND/NAME,…]     a chart's objects and a healthy cluster, see testdata/base.yaml
//	objects                        more objects, YAML; one of the same kind and name replaces another
//	monitoring KIND…               kinds of the Prometheus Operator that the cluster has
//	agents                         the Prometheus Operator has PrometheusAgents
//	answers                        what Prometheus says: SOURCE: {LABEL="VALUE", …} NUMBER
//	missing                        SOURCE: why it could not be read
//	local | metrics                single facts
//	examine CHECK…                 prints what is found
func TestExamine(t *testing.T) {
	datadriven.Walk(t, "testdata/checks", func(t *testing.T, path string) {
		f := empty()
		var objects []object
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "base":
				f = empty()
				var without string
				d.MaybeScanArgs(t, "without", &without)
				objects = with(t, nil, string(mustRead(t, "testdata/base.yaml")), strings.Split(without, "+")...)
				answers(t, f, string(mustRead(t, "testdata/base.answers")))
				for _, crd := range []string{"gpunodepools", "gpuquotas"} {
					objects = with(t, objects, strings.TrimPrefix(string(mustRead(t, "../../deploy/chart/gpuscale/files/crds/gpuscale.io_"+crd+".yaml")), "---\n"), strings.Split(without, "+")...)
				}
				for _, name := range signals {
					CustomMetrics.add(f, metav1.APIResource{Name: "pods/" + name})
					ExternalMetrics.add(f, metav1.APIResource{Name: name})
				}
			case "empty":
				f, objects = empty(), nil
			case "objects":
				objects = with(t, objects, d.Input)
			case "monitoring":
				for _, a := range d.CmdArgs {
					Monitoring.add(f, metav1.APIResource{Name: a.Key})
				}
			case "agents":
				MonitoringAlpha.add(f, metav1.APIResource{Name: "prometheusagents"})
			case "answers":
				answers(t, f, d.Input)
			case "missing":
				for line := range strings.SplitSeq(d.Input, "\n") {
					source, why, _ := strings.Cut(line, ": ")
					if strings.HasPrefix(why, "prometheus: ") || source == "prometheus" {
						source, why, _ = strings.Cut(strings.TrimPrefix(line, "prometheus: "), ": ")
						source = "prometheus: " + source
					}
					f.Missing[sourceOf(t, source)] = why
				}
			case "local":
				ahead, err := time.ParseDuration(d.Input)
				require.NoError(t, err)
				f.Local = now.Add(ahead)
				f.Asked = f.Local
			case "kubectl":
				f.Kubectl = strings.Fields(d.Input)
			case "namespace":
				f.Namespace = d.Input
			case "examine":
				var ids []string
				for _, a := range d.CmdArgs {
					ids = append(ids, a.Key)
				}
				checks, err := Select(All(), ids)
				require.NoError(t, err)
				var b bytes.Buffer
				require.NoError(t, Write(&b, Examine(read(t, f, objects), checks), false))
				return b.String()
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return ""
		})
	})
}

func empty() *Facts {
	f := newFacts()
	f.Now, f.Local, f.Asked = now, now, now
	return f
}

// add adds objects to facts.
func (k kind[T]) add(f *Facts, all ...T) {
	for i := range all {
		f.objects[k.Source] = append(k.Of(f), &all[i])
	}
}

func sourceOf(t *testing.T, name string) *Source {
	t.Helper()
	at := slices.IndexFunc(Table, func(s *Source) bool { return s.Name == name })
	if at < 0 {
		t.Fatalf("there is no source %q", name)
	}
	return Table[at]
}

// object is a document of YAML as JSON, and where the API server lists it.
type object struct {
	name, namespace string // "Deployment/a"
	source          *Source
	page            []byte
}

// parsed are documents by their text: scenarios share them.
var parsed = map[string]object{}

// with adds the objects of documents to others. An object replaces one of the same kind and name.
func with(t *testing.T, all []object, text string, without ...string) []object {
	t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		o, known := parsed[doc]
		if !known {
			raw, err := yaml.YAMLToJSON([]byte(doc))
			require.NoError(t, err)
			var head metav1.PartialObjectMetadata
			require.NoError(t, json.Unmarshal(raw, &head))
			o = object{head.Kind + "/" + head.Name, head.Namespace, listedBy(&head), fmt.Appendf(nil, `{"items":[%s]}`, raw)}
			parsed[doc] = o
		}
		at := slices.IndexFunc(all, func(have object) bool { return have.name == o.name && have.namespace == o.namespace })
		switch {
		case o.source == nil || slices.Contains(without, o.name):
		case at >= 0:
			all[at] = o
		default:
			all = append(all, o)
		}
	}
	return all
}

// listedBy is the source of an object, nil where none has it.
func listedBy(o *metav1.PartialObjectMetadata) *Source {
	of, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	for _, s := range Table {
		path := strings.Join(s.Paths, " ")
		if path != "" && s.resource() == of.Resource && strings.Contains(path, cmp.Or(of.Group, "api/v1")+"/") &&
			(strings.Contains(path, "%s") || !strings.Contains(path, "/namespaces/") || strings.Contains(path, "/"+o.Namespace+"/")) {
			return s
		}
	}
	return nil
}

// read reads objects into facts as from an API server's pages.
func read(t *testing.T, f *Facts, all []object) *Facts {
	t.Helper()
	into := *f
	into.objects = maps.Clone(f.objects)
	for _, o := range all {
		var err error
		into.objects[o.source], _, _, err = o.source.take(into.objects[o.source], o.page)
		require.NoError(t, err)
	}
	return &into
}

// answers puts Prometheus' answers into facts.
func answers(t *testing.T, f *Facts, text string) {
	t.Helper()
	seen := map[*Source]bool{}
	for line := range strings.SplitSeq(text, "\n") {
		name, sample, _ := strings.Cut(line+" ", ": ")
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		s := sourceOf(t, "prometheus: "+name)
		if !seen[s] {
			f.Answers[s], seen[s] = nil, true
		}
		if strings.TrimSpace(sample) != "" {
			labels, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(sample)
			require.NoError(t, err)
			f.Answers[s] = append(f.Answers[s], prom.Sample{Labels: labels, Value: values[0].Value})
		}
	}
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	return raw
}
