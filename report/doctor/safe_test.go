package doctor

import (
	"bytes"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/internal/require"
)

// TestCommand: what must not be pasted is in no command.
func TestCommand(t *testing.T) {
	for _, word := range []string{hostile, "a\nb", "\x1b[2J", "a\u202eb", "\xff"} {
		if c := command("kubectl", "get", word); c != "" {
			t.Errorf("%q is in a command to paste: %q", word, c)
		}
	}
	if c := command(strings.Repeat("x", maxCommand+1)); c != "" {
		t.Errorf("a command of %d letters", len(c))
	}
}

// TestColour: colour where it is asked for, and nowhere else.
func TestColour(t *testing.T) {
	f := empty()
	f.Pools = []*v1alpha1.GPUNodePool{{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1alpha1.GPUNodePoolSpec{Freeze: true}}}
	r := Examine(f, All())
	var plain, coloured bytes.Buffer
	require.NoError(t, Write(&plain, r, false))
	require.NoError(t, Write(&coloured, r, true))
	if strings.Contains(plain.String(), "\x1b") || !strings.Contains(coloured.String(), "\x1b[33mWARNING") {
		t.Errorf("plain %q, coloured %q", plain.String(), coloured.String())
	}
}

// TestMany: faults of a thousand nodes are counted, and twenty are listed.
func TestMany(t *testing.T) {
	f := empty()
	f.CRDs = []*apiextensionsv1.CustomResourceDefinition{{ObjectMeta: metav1.ObjectMeta{Name: "gpuquotas.gpuscale.io"}}}
	for range 1000 {
		f.Nodes = append(f.Nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{contract.StateLabel: "failed"}}})
	}
	checks, err := Select(All(), []string{"mig-config-failed"})
	require.NoError(t, err)
	r := Examine(f, checks)
	if r.Faults != 1000 || len(r.Checks[0].Findings) != maxFindings || r.Checks[0].More != 980 {
		t.Errorf("%d faults, %d listed, %d more", r.Faults, len(r.Checks[0].Findings), r.Checks[0].More)
	}
	var b bytes.Buffer
	require.NoError(t, Write(&b, r, false))
	if !strings.Contains(b.String(), "980 more are left out") {
		t.Error("it does not say how many are left out")
	}
}

func FuzzClean(f *testing.F) {
	f.Add(hostile, 10)
	f.Fuzz(func(t *testing.T, text string, limit int) {
		limit = min(max(limit, 0), 1000)
		out := Clean(text, limit)
		if len([]rune(out)) > limit+1 || strings.ContainsFunc(out, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q", out)
		}
		if c := command(text); c != "" && strings.ContainsFunc(c, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("command %q", c)
		}
	})
}
