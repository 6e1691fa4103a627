package loop

import (
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/act"
	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/internal/kube/kubefake"
	"github.com/gpuscale/gpuscale/internal/require"
	"github.com/gpuscale/gpuscale/plan"
	"github.com/gpuscale/gpuscale/plan/scenario"
)

// TestPage: the Events that docs/explain.md shows are those of the snapshots in testdata/events.txt, for operations
// under way or done.
func TestPage(t *testing.T) {
	var written []string
	datadriven.RunTest(t, "testdata/events.txt", func(t *testing.T, d *datadriven.TestData) string {
		s, policy, err := scenario.Parse(d.Input)
		require.NoError(t, err)
		made, outcome := plan.Make(s, policy), act.Done
		if d.Cmd == "begins" {
			outcome = act.Waiting
		}
		r := Reconcile{Observation: observe.Observation{Snapshot: s}, Plan: made}
		for _, a := range made.Actions {
			r.Results = append(r.Results, act.Result{Action: a, Outcome: outcome})
		}
		var pods []client.Object
		for _, v := range made.Verdicts {
			if namespace, name, ok := strings.Cut(v.Subject, "/"); ok && v.Kind == plan.KindPod {
				pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
			}
		}
		events := record.NewFakeRecorder(100)
		NewClusterPublisher(kubefake.New(kinds).WithObjects(pods...).Build(), events, slog.New(slog.DiscardHandler)).Publish(t.Context(), r)
		var lines []string
		for len(events.Events) > 0 {
			lines = append(lines, <-events.Events)
		}
		written = append(written, lines...)
		return strings.Join(slices.Compact(lines), "\n") + "\n"
	})
	page, err := os.ReadFile("../../docs/explain.md")
	require.NoError(t, err)
	rows := regexp.MustCompile(`(?m)^(Normal|Warning) +(\w+) +gpuscale-autoscaler +(.*)$`).FindAllStringSubmatch(string(page), -1)
	if len(rows) == 0 {
		t.Error("docs/explain.md shows no Event")
	}
	for _, row := range rows {
		begin, cut := strings.CutSuffix(strings.Join(row[1:], " "), "…")
		if !slices.ContainsFunc(written, func(e string) bool { return cut && strings.HasPrefix(e, begin) || e == begin }) {
			t.Errorf("docs/explain.md: no snapshot of testdata/events.txt has this Event: %s", row[0])
		}
	}
}
