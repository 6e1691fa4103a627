package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/sandbox/neighbours"
)

// fault is one thing that people get wrong, or that breaks.
type fault struct {
	name string
	seed func(*trouble)
	// check that has to report it, on exactly these objects.
	check   string
	objects []string
	// says is in what was seen: the fact, not a guess.
	says string
	// brings are other checks that report what truly follows from this fault; each
	// may and need not. Nobody else may become worse.
	brings []string
	// typed is that its commands are typed in as they are printed, and mend it. Else
	// by says who has to mend it: the commands only show more of it, or there are none.
	typed bool
	by    string
}

// faultSeed is the order in which faults are tried; 0 is another one each time.
var faultSeed = flag.Uint64("fault-seed", 0, "order of the faults; 0 is another one each time")

// TestSeededFaults: each fault is found, named, and mended by what is printed, and
// nothing else is called broken meanwhile.
func TestSeededFaults(t *testing.T) {
	b := start(t)
	if v := b.well(t); v.Faults+v.Warnings > 0 {
		t.Fatalf("the world is not in order: TestHealthy is about that: %v", v.worse(b.normal))
	}
	seed := *faultSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("again in this order: -fault-seed=%d", seed)
	all := slices.Concat(apiFaults, hpaFaults, poolFaults, nodeFaults, programFaults, scrapeFaults, guardFaults)
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, f := range all {
		t.Run(f.name, func(t *testing.T) { b.try(t, f) })
		if v := b.well(t); v.Faults+v.Warnings > 0 || len(v.worse(b.normal)) > 0 {
			t.Fatalf("after %s the world is not as it was: the next fault would be blamed for it: %v", f.name, v.worse(b.normal))
		}
	}
}

// steady is for how long a fault has to look as expected: the HPA controller, the
// autoscaler and Prometheus look every second, and what they make of it may be wrong.
const steady = 700 * time.Millisecond

// try makes the fault, lets doctor find it, and mends it.
func (b *bed) try(t *testing.T, f fault) {
	begin := time.Now()
	f.seed(&trouble{bed: b, t: t})
	t.Logf("made after %s", time.Since(begin).Round(10*time.Millisecond))
	var since time.Time // when it began to look as it should
	said := ""
	v := b.askUntil(t, soon, func(v visit) bool {
		wrong := strings.Join(b.differs(v, f), "; ")
		if wrong != said {
			t.Logf("after %s: %s", time.Since(begin).Round(10*time.Millisecond), wrong)
			said = wrong
		}
		if wrong != "" {
			since = time.Time{}
		} else if since.IsZero() {
			since = time.Now()
		}
		return !since.IsZero() && time.Since(since) > steady
	})
	for _, problem := range b.differs(v, f) {
		t.Error(problem)
	}
	c := v.of(f.check)
	t.Logf("found after %s", time.Since(begin).Round(10*time.Millisecond))
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
		t.Errorf("the commands do not mend it: %v", v.worse(b.normal))
	}
	t.Logf("mended after %s", time.Since(begin).Round(10*time.Millisecond))
}

// differs says in what a visit is not what the fault should look like.
func (b *bed) differs(v visit, f fault) []string {
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

// mayBeTyped says what is wrong with commands, whether they are typed in or not: a
// placeholder is not a command, and what is not ours to change has at least words.
func (b *bed) mayBeTyped(t *testing.T, f fault, found finding) {
	t.Helper()
	if f.typed && len(found.Commands) == 0 {
		t.Errorf("no commands for %s", found.Object)
	}
	if !f.typed && f.by == "" {
		t.Error("the table does not say who mends it")
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

// looks says whether a command only shows something, and can do so here: there are no
// kubelets to give logs, and who asks an API by --raw wants to see what it fails with.
func looks(words []string) bool {
	return words[0] == "kubectl" && !slices.Contains(words, "--raw") && (slices.Contains(words, "get") || slices.Contains(words, "describe") || slices.Contains(words, "auth"))
}

// typeIn runs a command as whoever pastes it would: by a shell, in the checkout, with
// the administrator's kubeconfig.
func (b *bed) typeIn(t *testing.T, command string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = b.root
	cmd.Env = []string{
		"PATH=" + strings.Join([]string{b.binaries.Bin, filepath.Dir(b.helm.Binary), os.Getenv("PATH")}, ":"),
		"HOME=" + b.cluster.Dir(), "KUBECONFIG=" + b.cluster.Kubeconfig(),
	}
	out, err := cmd.CombinedOutput()
	t.Logf("$ %s\n%s", command, out)
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

// trouble is a test that breaks something. What it has broken is whole again when it
// ends.
type trouble struct {
	*bed
	t *testing.T
}

func (x *trouble) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// cleanup is for what a test did to the world, with an end of its own: the test's
// context is over by then.
func (x *trouble) cleanup(do func(context.Context) error) {
	x.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), late)
		defer cancel()
		if err := do(ctx); err != nil {
			x.t.Errorf("cleaning up: %v", err)
		}
	})
}

// wait until ok says nil.
func (x *trouble) wait(what string, ok func() error) {
	x.t.Helper()
	x.must(until(within(x.t, late), what, ok))
}

// add makes objects; they go, and are waited for, when the test ends.
func (x *trouble) add(text string) {
	x.t.Helper()
	objects, err := neighbours.Parse([]byte(text))
	x.must(err)
	for _, o := range objects {
		x.must(x.create(within(x.t, late), o))
		x.cleanup(func(ctx context.Context) error { return x.remove(ctx, o) })
	}
}

// remove deletes an object and waits until it is gone.
func (b *bed) remove(ctx context.Context, o *unstructured.Unstructured) error {
	o = o.DeepCopy()
	return until(ctx, "deleting "+o.GetKind()+" "+o.GetName(), func() error {
		err := b.admin.Delete(ctx, o, client.GracePeriodSeconds(0), client.PropagationPolicy("Background"))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errNotYet)
	})
}

// keep puts an object back as it is now when the test ends, whatever became of it:
// changed by the test, deleted, or mended by what doctor prints.
func (x *trouble) keep(kind, namespace, name string) *unstructured.Unstructured {
	x.t.Helper()
	was := kindOf(kind, namespace, name)
	x.must(x.admin.Get(x.t.Context(), keyOf(was), was))
	x.cleanup(func(ctx context.Context) error {
		return until(ctx, "putting back "+name, func() error {
			now := kindOf(kind, namespace, name)
			err := x.admin.Get(ctx, keyOf(now), now)
			back := ours(was)
			if apierrors.IsNotFound(err) {
				return x.admin.Create(ctx, back)
			}
			if err != nil {
				return err
			}
			// Of the Service type and address are not Helm's here, but this bed's.
			if back.GetAnnotations()["meta.helm.sh/release-name"] != "" && back.GetKind() != "Service" {
				return asHelm(ctx, x.admin, back)
			}
			back.SetResourceVersion(now.GetResourceVersion())
			back.SetUID(now.GetUID())
			return x.admin.Update(ctx, back)
		})
	})
	return was.DeepCopy()
}

// ours is what somebody wrote of an object, without what the API server adds.
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
		now := kindOf(kind, namespace, name)
		if err := x.admin.Get(x.t.Context(), keyOf(now), now); err != nil {
			return fatal{err}
		}
		do(now)
		return x.admin.Update(x.t.Context(), now, options...)
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
	x.must(x.remove(within(x.t, late), x.keep(kind, namespace, name)))
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
	x.cleanup(func(ctx context.Context) error { return x.cluster.ReloadPrometheus(ctx, x.scrape.config()) })
	x.must(x.cluster.ReloadPrometheus(x.t.Context(), other.config()))
}

// telling changes what exporters say for as long as the test lasts.
func (x *trouble) telling(spoil func([]byte) []byte) {
	x.t.Cleanup(func() { x.fleet.tell(nil) })
	x.fleet.tell(spoil)
}
