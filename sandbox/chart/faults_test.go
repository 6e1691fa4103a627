package chart

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/internal/testall"
)

// fault is a user's mistake or a failure, as described in testdata/faults.
type fault struct {
	Name string
	Seed []struct {
		Add           []*unstructured.Unstructured // created, with their status
		Patch, Delete *unstructured.Unstructured   // Patch is a merge patch with the changed fields
		Do            string                       // name in deeds
	}
	// Check is the check that must report it, and About has exactly the objects that it must name.
	Check string
	About []string
	// Says must be in what was seen: a fact, not a guess.
	Says string
	// Brings lists other checks that may report a consequence of this fault. No other check may become worse.
	Brings []string
	// Typed means that the printed commands repair the fault. Otherwise they only show more, or there are none.
	Typed bool
	// Always marks one fault of each class, which make test tries. Only make test-all tries the others.
	Always bool
}

// readFaults reads all faults. NOW-48h in them is replaced by a time.
func readFaults(t *testing.T) []fault {
	t.Helper()
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no faults: %v", err)
	}
	var all []fault
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		text = regexp.MustCompile(`NOW[+-]\w+`).ReplaceAllFunc(text, func(when []byte) []byte {
			d, err := time.ParseDuration(string(when[len("NOW"):]))
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			return []byte(time.Now().Add(d).UTC().Format(metav1.RFC3339Micro))
		})
		var some []fault
		if err := yaml.UnmarshalStrict(text, &some); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, some...)
	}
	return all
}

// seed applies the fault until the test ends.
func (x *trouble) seed(f fault) {
	x.t.Helper()
	for _, step := range f.Seed {
		x.addObjects(step.Add)
		if step.Patch != nil {
			x.patchObject(step.Patch)
		}
		if o := step.Delete; o != nil {
			x.must(x.Delete(x.t.Context(), x.keep(o)))
		}
		if step.Do != "" {
			do := deeds[step.Do]
			if do == nil {
				x.t.Fatalf("no deed %q of %q", step.Do, slices.Sorted(maps.Keys(deeds)))
			}
			do(x)
		}
	}
}

// TestSeededFaults: doctor finds each fault and names it, the printed commands repair it, and meanwhile no
// other check reports a fault.
func TestSeededFaults(t *testing.T) {
	b := start(t)
	if v := b.well(t); v.Faults+v.Warnings > 0 {
		t.Fatalf("the installation has faults before the first one is seeded (see TestHealthy): %v", v.worse(b.normal))
	}
	all := readFaults(t)
	if !testall.Enabled() {
		all = slices.DeleteFunc(all, func(f fault) bool { return !f.Always })
	}
	seed := uint64(testall.Seed(t, 1))
	rand.New(rand.NewPCG(seed, seed)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, f := range all {
		t.Run(f.Name, func(t *testing.T) { b.try(t, f) })
		if v := b.well(t); v.Faults+v.Warnings > 0 || len(v.worse(b.normal)) > 0 {
			t.Fatalf("faults are left after %s: %v", f.Name, v.worse(b.normal))
		}
	}
}

// steady is how many reports in a row must be as expected, since the HPA controller, the autoscaler and
// Prometheus may still be reacting to the fault.
const steady = 3

// try applies the fault, waits until doctor finds it, and repairs it.
func (b *env) try(t *testing.T, f fault) {
	(&trouble{env: b, t: t}).seed(f)
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
	c := v.of(f.Check)
	for _, found := range c.Findings {
		t.Log(found)
		b.mayBeTyped(t, f, found)
	}
	if t.Failed() || !f.Typed {
		return
	}
	typed := map[string]bool{} // some commands are printed for each finding that they repair
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

// differs returns how a report differs from the fault's expectations.
func (b *env) differs(v visit, f fault) []string {
	out := v.worse(b.normal, append(slices.Clone(f.Brings), f.Check)...)
	var objects []string
	for _, found := range v.of(f.Check).Findings {
		objects = append(objects, found.Object)
		if !strings.Contains(found.Seen, f.Says) {
			out = append(out, fmt.Sprintf("%s has seen %q, want %q in it", f.Check, found.Seen, f.Says))
		}
	}
	slices.Sort(objects)
	want := slices.Sorted(slices.Values(f.About))
	if !slices.Equal(objects, want) {
		c := v.of(f.Check)
		out = append(out, fmt.Sprintf("%s (%s %s) is about %q, want %q", f.Check, c.Result, c.Why, objects, want))
	}
	return out
}

// mayBeTyped checks the printed commands, even if they are not run: they must not contain placeholders.
func (b *env) mayBeTyped(t *testing.T, f fault, found finding) {
	t.Helper()
	if f.Typed && len(found.Commands) == 0 {
		t.Errorf("no commands for %s", found.Object)
	}
	for _, command := range found.Commands {
		if strings.ContainsAny(command, "<>…\n") {
			t.Errorf("not to be typed in as it stands: %s", command)
		}
		if words := strings.Fields(command); words[0] != "kubectl" && words[0] != "helm" {
			t.Errorf("neither kubectl nor helm: %s", command)
		} else if !f.Typed && looks(words) {
			if err := b.typeIn(t, command); err != nil {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
}

// looks reports whether a command only reads and works in this test. There are no kubelets for logs, and a
// command with --raw shows an API's failure.
func looks(words []string) bool {
	return words[0] == "kubectl" && !slices.Contains(words, "--raw") && (slices.Contains(words, "get") || slices.Contains(words, "describe") || slices.Contains(words, "auth"))
}

// typeIn runs a command in a shell, in the checkout, with the administrator's kubeconfig.
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
	if strings.HasPrefix(command, "helm ") {
		return b.restartAutoscaler(ctx)
	}
	return nil
}
