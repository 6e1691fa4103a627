package doctor

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/report/doctor/fakeapi"
)

// now is the API server's clock in all scenarios.
var now = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// TestExamine plays scenarios: facts, then what checks find in them.
//
//	base [without=KIND/NAME,…]     a chart's objects and a healthy cluster, see testdata/base.yaml
//	objects                        more objects, YAML; one of the same kind and name replaces another
//	answers                        what Prometheus says: SOURCE: LABEL=VALUE … = NUMBER
//	missing                        SOURCE: why it could not be read
//	absent                         APIs that are not there
//	retention | local | metrics    single facts
//	examine CHECK…                 prints what is found
func TestExamine(t *testing.T) {
	datadriven.Walk(t, "testdata/checks", func(t *testing.T, path string) {
		f := empty()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "base":
				f = empty()
				var without string
				d.MaybeScanArgs(t, "without", &without)
				read(t, f, string(mustRead(t, "testdata/base.yaml")), strings.Split(without, "+")...)
				answers(t, f, string(mustRead(t, "testdata/base.answers")))
				for _, crd := range []string{"gpunodepools", "gpuquotas"} {
					read(t, f, strings.TrimPrefix(string(mustRead(t, "../../deploy/chart/gpuscale/files/crds/gpuscale.io_"+crd+".yaml")), "---\n"), strings.Split(without, "+")...)
				}
				f.Retention = "90d"
				f.CustomMetrics, f.ExternalMetrics = signals, signals
			case "empty":
				f = empty()
			case "objects":
				read(t, f, d.Input)
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
			case "absent":
				for _, name := range strings.Fields(d.Input) {
					f.Absent[sourceOf(t, name)] = true
				}
			case "retention":
				f.Retention = d.Input
			case "local":
				ahead, err := time.ParseDuration(d.Input)
				must(t, err)
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
				must(t, err)
				var b bytes.Buffer
				must(t, Write(&b, Examine(f, checks), false))
				return b.String()
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			return ""
		})
	})
}

func empty() *Facts {
	return &Facts{Now: now, Local: now, Asked: now, Missing: map[*Source]string{}, Absent: map[*Source]bool{}, Answers: map[*Source]prom.Vector{}}
}

func sourceOf(t *testing.T, name string) *Source {
	t.Helper()
	at := slices.IndexFunc(Table, func(s *Source) bool { return s.Name == name })
	if at < 0 {
		t.Fatalf("there is no source %q", name)
	}
	return Table[at]
}

// read puts objects into facts, by their kinds. An object is replaced by one of the
// same kind and name.
func read(t *testing.T, f *Facts, text string, without ...string) {
	t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		head := decoded(t, doc, reflect.TypeFor[metav1.PartialObjectMetadata]()).Interface().(*metav1.PartialObjectMetadata)
		skip := false
		for _, w := range without {
			skip = skip || w == head.Kind+"/"+head.Name
		}
		if skip {
			continue
		}
		switch {
		case head.Kind == "":
		case head.Kind == "Monitoring":
			f.Monitoring = []string{"servicemonitors", "prometheuses"}
		case head.Kind == "Lease" && head.Namespace == "kube-node-lease":
			put(t, &f.NodeLeases, doc)
		default:
			put(t, listOf(t, f, head.Kind), doc)
		}
	}
}

// listOf is the list of facts that has objects of a kind.
func listOf(t *testing.T, f *Facts, kind string) any {
	t.Helper()
	if slices.Contains([]string{"ReplicaSet", "StatefulSet", "Job"}, kind) {
		return &f.Workloads
	}
	if kind == "MutatingWebhookConfiguration" {
		return &f.MutatingWebhooks
	}
	v := reflect.ValueOf(f).Elem()
	for i := range v.NumField() {
		if of := v.Field(i).Type(); of.Kind() == reflect.Slice && of.Elem().Kind() == reflect.Pointer && of.Elem().Elem().Name() == kind {
			return v.Field(i).Addr().Interface()
		}
	}
	t.Fatalf("no field for a %s", kind)
	return nil
}

// put adds an object to a list of facts, or replaces the one of its name.
func put(t *testing.T, list any, doc string) {
	t.Helper()
	all := reflect.ValueOf(list).Elem()
	one := decoded(t, doc, all.Type().Elem().Elem())
	name := func(v reflect.Value) string {
		o := v.Interface().(metav1.ObjectMetaAccessor).GetObjectMeta()
		return o.GetNamespace() + "/" + o.GetName()
	}
	for i := range all.Len() {
		if name(all.Index(i)) == name(one) {
			all.Index(i).Set(one)
			return
		}
	}
	all.Set(reflect.Append(all, one))
}

// documents are what has been decoded, by type and text: scenarios share objects, which
// checks do not change.
var documents = map[reflect.Type]map[string]reflect.Value{}

// decoded is a pointer to what a document says.
func decoded(t *testing.T, doc string, of reflect.Type) reflect.Value {
	t.Helper()
	if documents[of] == nil {
		documents[of] = map[string]reflect.Value{}
	}
	v, known := documents[of][doc]
	if !known {
		v = reflect.New(of)
		must(t, yaml.Unmarshal([]byte(doc), v.Interface()))
		documents[of][doc] = v
	}
	return v
}

// answers puts Prometheus' answers into facts.
func answers(t *testing.T, f *Facts, text string) {
	t.Helper()
	all, err := fakeapi.Answers(text)
	must(t, err)
	for name, v := range all {
		f.Answers[sourceOf(t, "prometheus: "+name)] = v
	}
}

func mustRead(t *testing.T, file string) []byte {
	t.Helper()
	raw, err := os.ReadFile(file)
	must(t, err)
	return raw
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(fmt.Errorf("%w", err))
	}
}
