package pods

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/util/wait"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

// DefaultSocket is where the kubelet listens.
const DefaultSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

const (
	// keep is how long the last good answer is used while the kubelet fails.
	keep = 5 * time.Minute
	// settle is for how long after a new connection an answer with fewer allocations is not
	// used: a kubelet that has just started does not know its pods yet.
	settle = 20 * time.Second
	// maxAnswer bounds one answer in bytes: a node with 250 pods answers in well under a MiB.
	maxAnswer = 16 << 20
)

// Options of a Watcher.
type Options struct {
	Socket   string        // the kubelet's, for PodResources
	Interval time.Duration // between requests; 0 is one second
	// Resources are further resource names whose device ids are GPUs, beside
	// nvidia.com/*.
	Resources []string

	// API and Node are required by the options below; only objects of this node
	// are requested.
	API  *API
	Node string
	// DRA reads the node's ResourceSlices, which map resource claims to GPUs
	// and MIG instances.
	DRA bool
	// Annotations reads the node's pods, whose annotations name the GPUs of
	// fractional dialects.
	Annotations bool
	// PodText reads the node's pods and renders each one's label text for Attribution.Pods;
	// nil for none.
	PodText func(*Pod) string
	// Processes measures containers that share a GPU one by one.
	Processes Processes

	Log *slog.Logger

	// For tests; zero means time.Now and Timeout. A kubelet short of CPU takes
	// seconds.
	now   func() time.Time
	limit time.Duration
}

// Snapshot is one good answer; immutable.
type Snapshot struct {
	Taken  time.Time
	Claims []Claim
}

// Watcher keeps the newest answer of one kubelet.
type Watcher struct {
	opts    Options
	kubelet *grpc.ClientConn
	made    atomic.Uint64 // connections to it
	cluster *cluster
	users   *users // nil without Processes
	last    atomic.Pointer[Snapshot]
	failed  atomic.Pointer[error]
	errors  atomic.Uint64
	// answered is closed after the first answer or failure.
	answered chan struct{}
	asked    chan struct{} // the same for the API server
	changed  chan struct{}

	// Of the requesting goroutine.
	connections uint64    // as of the last answer
	doubtSince  time.Time // when the connection was last made again
	warnedDRA   bool      // DRA claims not read: logged once
	warnedHAMi  bool      // annotations not read: logged once
}

// New returns a Watcher. Run connects, so an absent kubelet is no error.
func New(o Options) (*Watcher, error) {
	o = o.withDefaults()
	w := &Watcher{opts: o, cluster: newCluster(o), answered: make(chan struct{}), asked: make(chan struct{}), changed: make(chan struct{}, 1)}
	var err error
	if w.kubelet, err = dial(o.Socket, &w.made); err != nil {
		return nil, err
	}
	if o.Processes != nil {
		w.users = &users{source: o.Processes, proc: "/proc", world: w.cluster.now.Load, log: o.Log}
		w.users.now.Store(new([]GPU))
	}
	return w, nil
}

func (o Options) withDefaults() Options {
	o.Interval = cmp.Or(o.Interval, time.Second)
	o.limit = cmp.Or(o.limit, Timeout)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.now == nil {
		o.now = time.Now
	}
	return o
}

// Run requests until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	defer w.kubelet.Close()
	if w.opts.DRA || w.opts.asksPods() {
		// The first answers come together, so that series do not begin without
		// the pods that only the API server knows. One that hangs is not waited for.
		first := sync.OnceFunc(func() { close(w.asked) })
		go w.cluster.run(ctx, func() { first(); send(w.changed) })
		select {
		case <-w.asked:
		case <-time.After(clusterWait):
		case <-ctx.Done():
		}
	}
	if w.users != nil { // on its own clock: a hanging driver must not delay requests to the kubelet
		go wait.UntilWithContext(ctx, func(context.Context) { w.users.pass() }, w.opts.Interval)
	}
	answered := sync.OnceFunc(func() { close(w.answered) })
	wait.NonSlidingUntilWithContext(ctx, func(ctx context.Context) {
		w.ask(ctx)
		answered()
	}, w.opts.Interval)
}

// ask makes one request. A failure keeps the last answer and is logged when it
// begins and when it ends.
func (w *Watcher) ask(ctx context.Context) {
	limit, cancel := context.WithTimeout(ctx, w.opts.limit)
	defer cancel()
	taken := w.opts.now()
	answer, err := podresources.NewPodResourcesListerClient(w.kubelet).List(limit, &podresources.ListPodResourcesRequest{})
	if ctx.Err() != nil {
		return
	}
	before := w.Err()
	if err != nil {
		err = fmt.Errorf("listing pod resources on %s: %w", w.opts.Socket, err)
		w.errors.Add(1)
		w.failed.Store(&err)
		if before == nil {
			w.opts.Log.Warn("the kubelet does not answer", "error", err, "keeps_last_answer", w.last.Load() != nil)
		}
		return
	}
	if before != nil {
		w.opts.Log.Info("the kubelet answers again")
	}
	w.failed.Store(nil)
	w.take(&Snapshot{Taken: taken, Claims: w.claims(answer.GetPodResources())})
}

// take makes an answer the newest, unless it may be a kubelet's that does not
// know its pods yet.
func (w *Watcher) take(next *Snapshot) {
	old := w.last.Load()
	if w.doubted(old, next) {
		return
	}
	w.last.Store(next)
	if old == nil || !slices.Equal(old.Claims, next.Claims) {
		w.cluster.poke()
		send(w.changed)
	}
}

// doubted reports whether an answer may be incomplete. A starting kubelet lists
// the pods it knows so far: none, then those of its files, then the API
// server's. Such an answer would remove the pods from their series for seconds.
// So an answer with fewer allocations is not used for a while after a new
// connection. The last good answer ages meanwhile.
func (w *Watcher) doubted(old, next *Snapshot) bool {
	made := w.made.Load()
	if old != nil && made != w.connections {
		w.doubtSince = next.Taken
	}
	w.connections = made
	return old != nil && lost(old.Claims, next.Claims) && next.Taken.Sub(w.doubtSince) < settle
}

// lost reports whether a claim is no longer there. Both are sorted.
func lost(old, next []Claim) bool {
	for _, c := range old {
		if _, ok := slices.BinarySearchFunc(next, c, compareClaims); !ok {
			return true
		}
	}
	return false
}

// hamiID matches ids of HAMi's device plugin. Such an id does not say which GPU the pod is on: HAMi's
// scheduler decides that and writes it into an annotation.
var hamiID = regexp.MustCompile(`^GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+$`)

func (w *Watcher) claims(pods []*podresources.PodResources) []Claim {
	var claims []Claim
	for _, pod := range pods {
		for _, container := range pod.GetContainers() {
			allocation := collect.Allocation{Namespace: pod.GetNamespace(), Pod: pod.GetName(), Container: container.GetName()}
			for _, devices := range container.GetDevices() {
				for _, id := range devices.GetDeviceIds() {
					if w.isGPU(devices.GetResourceName(), id) {
						if hamiID.MatchString(id) && !w.opts.Annotations && !w.warnedHAMi {
							w.warnedHAMi = true
							w.opts.Log.Warn("GPUs are allocated by HAMi, whose pods --kubernetes-fractional-gpus would attribute", "namespace", pod.GetNamespace(), "pod", pod.GetName())
						}
						claims = append(claims, Claim{DeviceID: id, Allocation: allocation})
					}
				}
			}
			claims = append(claims, w.draClaims(container, allocation)...)
		}
	}
	slices.SortFunc(claims, compareClaims) // the kubelet's order is a map's
	return slices.Compact(claims)
}

// draClaims are the devices that a container has through resource claims.
func (w *Watcher) draClaims(container *podresources.ContainerResources, allocation collect.Allocation) (claims []Claim) {
	for _, d := range container.GetDynamicResources() {
		for _, r := range d.GetClaimResources() {
			if r.GetDriverName() != nvidiaDriver {
				continue
			}
			claims = append(claims, Claim{Allocation: allocation, DRA: collect.Claim{
				Name: d.GetClaimName(), Namespace: d.GetClaimNamespace(),
				Driver: r.GetDriverName(), Pool: r.GetPoolName(), Device: r.GetDeviceName(),
			}})
		}
	}
	if len(claims) > 0 && !w.opts.DRA {
		if !w.warnedDRA {
			w.warnedDRA = true
			w.opts.Log.Warn("GPUs are allocated by resource claims, which --kubernetes-enable-dra would attribute", "namespace", allocation.Namespace, "pod", allocation.Pod)
		}
		return nil
	}
	return claims
}

func compareClaims(a, b Claim) int {
	return cmp.Or(compareAllocations(a.Allocation, b.Allocation), cmp.Compare(a.DeviceID, b.DeviceID),
		cmp.Compare(a.DRA.Namespace, b.DRA.Namespace), cmp.Compare(a.DRA.Name, b.DRA.Name), cmp.Compare(a.DRA.Pool, b.DRA.Pool), cmp.Compare(a.DRA.Device, b.DRA.Device))
}

// isGPU reports whether a device is a GPU or a part of one. NVIDIA's other
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
	d, known := parseDevice(id)
	return known && d.Index < 0 // any plugin may number its devices
}

// Snapshot returns the newest good answer, or nil where there is none or it is
// older than keep: allocations are unknown then.
func (w *Watcher) Snapshot(now time.Time) *Snapshot {
	if s := w.last.Load(); s != nil && now.Sub(s.Taken) <= keep {
		return s
	}
	return nil
}

// Err returns why the newest request failed, nil where it did not.
func (w *Watcher) Err() error {
	if err := w.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// APIErr returns why the API server's newest answers are incomplete, nil if they are complete. It
// waits for the first ones, which Run requests.
func (w *Watcher) APIErr() error {
	if w.opts.DRA || w.opts.asksPods() {
		<-w.asked
	}
	return w.cluster.now.Load().failed
}

// Errors counts failed requests.
func (w *Watcher) Errors() uint64 { return w.errors.Load() }

// Answered is closed once the first request was answered or failed.
func (w *Watcher) Answered() <-chan struct{} { return w.answered }

// Changed receives after answers that may change the attribution.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }
