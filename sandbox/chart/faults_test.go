package chart

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/testall"
	"github.com/gpuscale/gpuscale/sandbox/neighbours"
	"github.com/gpuscale/gpuscale/sandbox/testenv"
)

// fault is one mistake of users, or one failure.
type fault struct {
	name string
	seed func(*trouble)
	// check that has to report it, on exactly these objects.
	check   string
	objects []string
	// says is in what was seen: the fact, not a guess.
	says string
	// brings are other checks that may report a consequence of this fault. No other
	// check may become worse.
	brings []string
	// typed: its commands, as printed, repair it. Otherwise they only show more of
	// it, or there are none.
	typed bool
	// always: make test tries it, one fault of each class. The others are make
	// test-all's.
	always bool
}

// TestSeededFaults: each fault is found, named, and repaired by the printed commands,
// and no other check reports a fault meanwhile.
func TestSeededFaults(t *testing.T) {
	b := start(t)
	if v := b.well(t); v.Faults+v.Warnings > 0 {
		t.Fatalf("the installation has faults before the first one is seeded (see TestHealthy): %v", v.worse(b.normal))
	}
	all := slices.Concat(apiFaults, hpaFaults, poolFaults, nodeFaults, programFaults, scrapeFaults, guardFaults, tenantFaults)
	if !testall.Enabled() {
		all = slices.DeleteFunc(all, func(f fault) bool { return !f.always })
	}
	seed := uint64(testall.Seed(t, 1))
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) { b.try(t, f) })
		if v := b.well(t); v.Faults+v.Warnings > 0 || len(v.worse(b.normal)) > 0 {
			t.Fatalf("faults are left after %s: %v", f.name, v.worse(b.normal))
		}
	}
}

// steady is how many visits in a row a fault has to look as expected: the HPA
// controller, the autoscaler and Prometheus may still react to it.
const steady = 3

// try seeds the fault, lets doctor find it, and repairs it.
func (b *env) try(t *testing.T, f fault) {
	f.seed(&trouble{env: b, t: t})
	seen, last := 0, ""
	v := b.askUntil(t, func(v visit) bool {
		wrong := strings.Join(b.differs(v, f), "; ")
		if wrong != last {
			t.Log("doctor differs: ", wrong)
			last = wrong
		}
		seen++
		if wrong != "" {
			seen = 0
		}
		return seen == steady
	})
	for _, problem := range b.differs(v, f) {
		t.Error(problem)
	}
	c := v.of(f.check)
	for _, found := range c.Findings {
		t.Log(found)
		b.mayBeTyped(t, f, found)
	}
	if t.Failed() || !f.typed {
		return
	}
	typed := map[string]bool{} // some are printed once for each finding that they mend
	for _, found := range c.Findings {
		for _, command := range found.Commands {
			if typed[command] {
				continue
			}
			typed[command] = true
			if err := b.typeIn(t, command); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
	if t.Failed() {
		return
	}
	if v := b.well(t); v.Faults+v.Warnings > 0 || len(v.worse(b.normal)) > 0 {
		t.Errorf("the commands do not repair it: %v", v.worse(b.normal))
	}
}

// differs returns the differences between a visit and the fault's expectations.
func (b *env) differs(v visit, f fault) []string {
	out := v.worse(b.normal, append(slices.Clone(f.brings), f.check)...)
	var objects []string
	for _, found := range v.of(f.check).Findings {
		objects = append(objects, found.Object)
		if !strings.Contains(found.Seen, f.says) {
			out = append(out, fmt.Sprintf("%s has seen %q, want %q in it", f.check, found.Seen, f.says))
		}
	}
	slices.Sort(objects)
	want := slices.Sorted(slices.Values(f.objects))
	if !slices.Equal(objects, want) {
		c := v.of(f.check)
		out = append(out, fmt.Sprintf("%s (%s %s) is about %q, want %q", f.check, c.Result, c.Why, objects, want))
	}
	return out
}

// mayBeTyped checks the printed commands, whether they are typed in or not: they
// contain no placeholders.
func (b *env) mayBeTyped(t *testing.T, f fault, found finding) {
	t.Helper()
	if f.typed && len(found.Commands) == 0 {
		t.Errorf("no commands for %s", found.Object)
	}
	for _, command := range found.Commands {
		if strings.ContainsAny(command, "<>…\n") {
			t.Errorf("not to be typed in as it stands: %s", command)
		}
		if words := strings.Fields(command); words[0] != "kubectl" && words[0] != "helm" {
			t.Errorf("neither kubectl nor helm: %s", command)
		} else if !f.typed && looks(words) {
			if err := b.typeIn(t, command); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
}

// looks reports whether a command only reads, and works here: there are no kubelets
// for logs, and a command with --raw shows an API's failure.
func looks(words []string) bool {
	return words[0] == "kubectl" && !slices.Contains(words, "--raw") && (slices.Contains(words, "get") || slices.Contains(words, "describe") || slices.Contains(words, "auth"))
}

// typeIn runs a command in a shell, in the checkout, with the administrator's
// kubeconfig.
func (b *env) typeIn(t *testing.T, command string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = b.Root
	cmd.Env = []string{
		"PATH=" + strings.Join([]string{b.Binaries.Bin, filepath.Dir(b.helm.Binary), os.Getenv("PATH")}, ":"),
		"HOME=" + b.Cluster.Dir(), "KUBECONFIG=" + b.Cluster.Kubeconfig(),
	}
	out, err := cmd.CombinedOutput()
	t.Logf("$ %s\n%s", command, out)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// trouble is a test that breaks something and repairs it when it ends.
type trouble struct {
	*env
	t *testing.T
}

func (x *trouble) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// cleanup undoes a change when the test ends, with a context of its own: the test's
// has ended by then.
func (x *trouble) cleanup(do func(context.Context) error) {
	x.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience)
		defer cancel()
		if err := do(ctx); err != nil {
			x.t.Errorf("cleaning up: %v", err)
		}
	})
}

// wait until ok returns nil.
func (x *trouble) wait(what string, ok func() error) {
	x.t.Helper()
	x.must(until(patient(x.t), what, ok))
}

// add makes objects; they go, and are waited for, when the test ends.
func (x *trouble) add(text string) {
	x.t.Helper()
	objects, err := neighbours.Parse([]byte(text))
	x.must(err)
	for _, o := range objects {
		err := x.CreateObject(x.t.Context(), o)
		if o.GetKind() == "CustomResourceDefinition" && apierrors.IsAlreadyExists(err) {
			continue // another test has its project's own
		}
		x.must(err)
		x.cleanup(func(ctx context.Context) error { return x.Delete(ctx, o.DeepCopy()) })
	}
}

// keep puts an object back as it is now when the test ends, also one that
// the test has deleted or a printed command has changed.
func (x *trouble) keep(kind, namespace, name string) *unstructured.Unstructured {
	x.t.Helper()
	was := testenv.Object(kind, namespace, name)
	x.must(x.Admin.Get(x.t.Context(), keyOf(was), was))
	x.cleanup(func(ctx context.Context) error {
		return until(ctx, "putting back "+name, func() error {
			now := testenv.Object(kind, namespace, name)
			err := x.Admin.Get(ctx, keyOf(now), now)
			back := ours(was)
			if apierrors.IsNotFound(err) {
				return x.Admin.Create(ctx, back)
			}
			if err != nil {
				return err
			}
			// Of the Service type and address are not Helm's here, but this test environment's.
			if back.GetAnnotations()["meta.helm.sh/release-name"] != "" && back.GetKind() != "Service" {
				if err := asHelm(ctx, x.Admin, back); err != nil {
					return err
				}
				// No other manager owns a field that Helm will change.
				if err := x.Admin.Get(ctx, keyOf(now), now); err != nil {
					return err
				}
				now.SetManagedFields(slices.DeleteFunc(now.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager != "helm" && f.Subresource == "" }))
				return x.Admin.Update(ctx, now)
			}
			back.SetResourceVersion(now.GetResourceVersion())
			back.SetUID(now.GetUID())
			return x.Admin.Update(ctx, back)
		})
	})
	return was.DeepCopy()
}

// ours is an object without the fields that the API server sets.
func ours(o *unstructured.Unstructured) *unstructured.Unstructured {
	o = o.DeepCopy()
	for _, field := range []string{"managedFields", "uid", "creationTimestamp", "generation", "resourceVersion"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	unstructured.RemoveNestedField(o.Object, "status")
	return o
}

// asHelm writes an object as Helm does. Its fields are Helm's then: it does not
// overwrite what others own.
func asHelm(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return c.Patch(ctx, o.DeepCopy(), client.RawPatch(types.ApplyYAMLPatchType, text), client.FieldOwner("helm"), client.ForceOwnership)
}

// change keeps an object and changes it.
func (x *trouble) change(kind, namespace, name string, do func(*unstructured.Unstructured)) {
	x.t.Helper()
	x.keep(kind, namespace, name)
	x.update(kind, namespace, name, do)
}

func (x *trouble) update(kind, namespace, name string, do func(*unstructured.Unstructured), options ...client.UpdateOption) {
	x.t.Helper()
	x.wait("changing "+name, func() error {
		now := testenv.Object(kind, namespace, name)
		if err := x.Admin.Get(x.t.Context(), keyOf(now), now); err != nil {
			return await.Final(err)
		}
		do(now)
		return x.Admin.Update(x.t.Context(), now, options...)
	})
}

// set a field in the object, by its path.
func (x *trouble) set(kind, namespace, name string, value any, path ...string) {
	x.t.Helper()
	x.change(kind, namespace, name, func(u *unstructured.Unstructured) {
		x.must(unstructured.SetNestedField(u.Object, value, path...))
	})
}

// without deletes an object; it is there again when the test ends.
func (x *trouble) without(kind, namespace, name string) {
	x.t.Helper()
	x.must(x.Delete(x.t.Context(), x.keep(kind, namespace, name)))
}

// mark puts labels and annotations on an object; an empty value takes one away.
func mark(labels, annotations map[string]string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		u.SetLabels(over(u.GetLabels(), labels))
		u.SetAnnotations(over(u.GetAnnotations(), annotations))
	}
}

func over(have, changes map[string]string) map[string]string {
	out := maps.Clone(have)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, changes)
	maps.DeleteFunc(out, func(_, v string) bool { return v == "" })
	return out
}

// scraping gives Prometheus another configuration for as long as the test lasts.
func (x *trouble) scraping(change func(*scraping)) {
	x.t.Helper()
	other := *x.scrape
	change(&other)
	x.cleanup(func(ctx context.Context) error { return x.Cluster.ReloadPrometheus(ctx, x.scrape.config()) })
	x.must(x.Cluster.ReloadPrometheus(x.t.Context(), other.config()))
}

// spoilMetrics changes the exporters' series until the test ends.
func (x *trouble) spoilMetrics(spoil func([]byte) []byte) {
	x.t.Cleanup(func() { x.fleet.spoilMetrics(nil) })
	x.fleet.spoilMetrics(spoil)
}
