package play

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/gpuscale/gpuscale/internal/text"
	"github.com/gpuscale/gpuscale/sandbox/world"
)

// errLooked is returned for a failed story that was kept running so that users could look at it.
var errLooked = errors.New("the story had failed (see above)")

// Failed reports whether the story itself failed, even if Ctrl-C was pressed later.
func Failed(err error) bool { return errors.Is(err, errLooked) }

// places are the parts of a running world that users can look at.
type places struct {
	boards, prometheus, autoscaler, adapter, logs string // boards: an address, or why there is none
	kubeconfig, kubectl, report, adapterCA        string // files
}

func placesOf(o Options, w *world.World) places {
	return places{
		prometheus: w.Cluster.PrometheusURL(),
		autoscaler: w.Programs.AutoscalerURL(),
		adapter:    w.Programs.AdapterURL(),
		logs:       filepath.Join(w.Cluster.Dir(), "logs"),
		kubeconfig: w.Cluster.Kubeconfig(),
		kubectl:    o.Binaries.ControlPlane.Program("kubectl"),
		report:     o.Binaries.Program("gpuscale-report"),
		adapterCA:  w.Programs.AdapterCA(),
	}
}

// text lists addresses and folders first, then commands to paste into a shell.
func (p places) text() string {
	return fmt.Sprintf(`
kept running until Ctrl-C, which ends and removes everything:
  boards       %s
  Prometheus   %s
  autoscaler   %s/debug/plan
  adapter      %s/debug/rules (see below)
  logs         %s
in another terminal:
  export KUBECONFIG=%s PROMETHEUS_URL=%s
  alias kubectl=%s gpuscale-report=%s
  gpuscale-report top
  kubectl get gpunodepools
  kubectl get pods -A -o wide
  kubectl --server=%s --certificate-authority=%s get --raw /debug/rules`,
		p.boards, p.prometheus, p.autoscaler, p.adapter, p.logs,
		text.Quote(p.kubeconfig), text.Quote(p.prometheus), text.Quote(p.kubectl), text.Quote(p.report), text.Quote(p.adapter), text.Quote(p.adapterCA))
}

// keep keeps everything running until ctx ends, and serves the boards. failed is the reason why the story
// failed; nil if it succeeded. It also reports a program that dies meanwhile.
func (o Options) keep(ctx context.Context, w *world.World, failed error) error {
	p := placesOf(o, w)
	boards, wait, err := serveBoards(ctx, w.Cluster.PrometheusURL(), world.ScrapeInterval, o.Log)
	if err != nil {
		p.boards = "none: " + err.Error()
	} else {
		p.boards = boards
		defer wait()
	}
	if failed != nil {
		o.View.Say("\nfailed    %v", failed)
	}
	o.View.Say("%s", p.text())
	died := w.Cluster.Failed()
	if failed != nil && w.Cluster.Err() != nil { // already reported
		died = nil
	}
	select {
	case <-ctx.Done():
	case <-died:
		failed = w.Cluster.Err()
		o.View.Say("\nfailed    %v\n          the rest keeps running until Ctrl-C", failed)
		<-ctx.Done()
	}
	if failed != nil {
		return errLooked
	}
	return nil
}
