package pods

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// DefaultSocket is where the kubelet listens.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// maxAnswer bounds one List: a node with 250 pods answers in well under 1 MB.
const maxAnswer = 16 << 20

// Options of a Watcher.
type Options struct {
	// Socket is the kubelet's PodResources socket; empty is DefaultSocket.
	Socket string
	// Interval between questions, at least 100 ms. Zero is one second.
	Interval time.Duration
	// Keep is how long the last good answer is used while the kubelet fails.
	// Zero is five minutes.
	Keep time.Duration
	// Resources are further resource names whose device ids are cards, beside
	// nvidia.com/*.
	Resources []string
	Log       *slog.Logger
}

// Snapshot is one good answer; immutable.
type Snapshot struct {
	Taken  time.Time
	Claims []Claim
}

// Watcher keeps the newest answer of one kubelet.
type Watcher struct {
	opts   Options
	conn   *grpc.ClientConn
	client podresources.PodResourcesListerClient
	last   atomic.Pointer[Snapshot]
	failed atomic.Pointer[error]
	errors atomic.Uint64
	// answered is closed after the first question, good or bad.
	answered chan struct{}
	changed  chan struct{}
}

// New returns a Watcher. It connects when Run asks, so a kubelet that is not
// there yet is no error.
func New(o Options) (*Watcher, error) {
	if o.Socket == "" {
		o.Socket = DefaultSocket
	}
	if o.Interval == 0 {
		o.Interval = time.Second
	}
	if o.Keep == 0 {
		o.Keep = 5 * time.Minute
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Interval < 100*time.Millisecond {
		return nil, fmt.Errorf("asking the kubelet every %s: at least 100ms", o.Interval)
	}
	// gRPC's own pause grows to two minutes, which a kubelet restart need not cost.
	reconnect := backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second}
	conn, err := grpc.NewClient("unix:"+strings.TrimPrefix(o.Socket, "unix://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("kubelet socket %s: %w", o.Socket, err)
	}
	return &Watcher{
		opts: o, conn: conn, client: podresources.NewPodResourcesListerClient(conn),
		answered: make(chan struct{}), changed: make(chan struct{}, 1),
	}, nil
}

// Run asks until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	defer w.conn.Close()
	tick := time.NewTicker(w.opts.Interval)
	defer tick.Stop()
	for first := true; ; first = false {
		w.ask(ctx)
		if first {
			close(w.answered)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask makes one question. A failure keeps the last answer and is logged when it
// begins and when it ends.
func (w *Watcher) ask(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, max(w.opts.Interval, time.Second))
	defer cancel()
	taken := time.Now()
	answer, err := w.client.List(limit, &podresources.ListPodResourcesRequest{})
	if ctx.Err() != nil {
		return
	}
	before := w.Err()
	if err != nil {
		err = fmt.Errorf("listing pod resources on %s: %w", w.opts.Socket, err)
		w.errors.Add(1)
		w.failed.Store(&err)
		if before == nil {
			w.opts.Log.Warn("the kubelet does not say who holds the GPUs; the last answer is kept", "error", err, "keep", w.opts.Keep)
		}
		return
	}
	if before != nil {
		w.opts.Log.Info("the kubelet answers again")
	}
	w.failed.Store(nil)
	claims := w.claims(answer)
	old := w.last.Swap(&Snapshot{Taken: taken, Claims: claims})
	if old == nil || !slices.Equal(old.Claims, claims) {
		select {
		case w.changed <- struct{}{}:
		default: // one is waiting already
		}
	}
}

func (w *Watcher) claims(answer *podresources.ListPodResourcesResponse) []Claim {
	var claims []Claim
	for _, pod := range answer.GetPodResources() {
		for _, container := range pod.GetContainers() {
			holder := collect.Holder{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: container.GetName()}
			for _, devices := range container.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					if w.isGPU(devices.GetResourceName(), id) {
						claims = append(claims, Claim{Resource: devices.GetResourceName(), DeviceID: id, Holder: holder})
					}
				}
			}
		}
	}
	slices.SortFunc(claims, func(a, b Claim) int { // the kubelet's order is a map's
		return cmp.Or(compareHolders(a.Holder, b.Holder), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.DeviceID, b.DeviceID))
	})
	return claims
}

// isGPU reports whether a device is a card or a part of one. NVIDIA's other
// plugins hand out nvidia.com/* too (network adapters by PCI address), and
// time slicing may rename the resource, so beyond the usual names the id decides.
func (w *Watcher) isGPU(resource, id string) bool {
	if slices.Contains(w.opts.Resources, resource) {
		return true
	}
	name, ours := strings.CutPrefix(resource, "nvidia.com/")
	if !ours {
		return false
	}
	if name == "gpu" || strings.HasPrefix(name, "gpu.") || strings.HasPrefix(name, "mig-") {
		return true
	}
	_, err := ParseDevice(id)
	return err == nil
}

// Snapshot returns the newest good answer, or nil where there is none or it is
// older than Keep: then nobody knows who holds what.
func (w *Watcher) Snapshot(now time.Time) *Snapshot {
	if s := w.last.Load(); s != nil && now.Sub(s.Taken) <= w.opts.Keep {
		return s
	}
	return nil
}

// Asked returns when the newest good answer was given, however old; zero where
// there was none.
func (w *Watcher) Asked() time.Time {
	if s := w.last.Load(); s != nil {
		return s.Taken
	}
	return time.Time{}
}

// Err returns why the newest question failed, nil where it did not.
func (w *Watcher) Err() error {
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Errors counts failed questions.
func (w *Watcher) Errors() uint64 { return w.errors.Load() }

// Answered is closed once the first question was answered or failed.
func (w *Watcher) Answered() <-chan struct{} { return w.answered }

// Changed receives after an answer that differs from the one before.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }
