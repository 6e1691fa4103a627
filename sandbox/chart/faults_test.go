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

// fault is one mistake of users, or one failure, as testdata/faults has it.
type fault struct {
	Name string
	Seed []struct {
		Add           []*unstructured.Unstructured // are made, with their status
		Patch, Delete *unstructured.Unstructured   // Patch has the fields that change: a merge patch
		Do            string                       // one of deeds
	}
	// Check has to report it, About exactly these objects.
	Check string
	About []string
	// Says is in what was seen: the fact, not a guess.
	Says string
	// Brings are other checks that may report a consequence of this fault. No other
	// check may become worse.
	Brings []string
	// Typed: its commands, as printed, repair it. Otherwise they only show more of
	// it, or there are none.
	Typed bool
	// Always: make test tries it, one fault of each class. The others are make
	// test-all's.
	Always bool
}

// readFaults reads all of them. NOW-48h in them is a time.
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

// seed breaks what the fault says until the test ends.
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

// TestSeededFaults: each fault is found, named, and repaired by the printed commands,
// and no other check reports a fault meanwhile.
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

// steady is how many visits in a row a fault has to look as expected: the HPA
// controller, the autoscaler and Prometheus may still react to it.
const steady = 3

// try seeds the fault, lets doctor find it, and repairs it.
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

// mayBeTyped checks the printed commands, whether they are typed in or not: they
// contain no placeholders.
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
	if strings.HasPrefix(command, "helm ") {
		return b.restartAutoscaler(ctx)
	}
	return nil
}
