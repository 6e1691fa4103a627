package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition"
)

// idle watches the program while nothing happens.
func (l *lab) idle(ctx context.Context, r *report) error {
	if l.o.idle == 0 {
		return nil
	}
	// What it did to begin with is not idle: it has said what there is to say once
	// it has written nothing for a while.
	if err := l.quiet(ctx); err != nil {
		return err
	}
	pid := l.subject.PID()
	cpu, from := cpuTime(pid), time.Now()
	if err := pause(ctx, l.o.idle); err != nil {
		return err
	}
	took := time.Since(from)
	rss := memory(pid)
	r.add("idle", "processor", (cpuTime(pid)-cpu).Seconds()/took.Seconds(), "core", atMost(0.01), "0.011")
	r.add("idle", "resident", float64(rss.now)/(1<<20), "MiB", nil, "")
	r.note(rss.text())
	asked, err := auditFile(l.audit(), from, from.Add(took))
	if err != nil {
		return err
	}
	r.perMinute("idle", asked, took)
	return nil
}

// quiet waits until the program has written nothing for five seconds.
func (l *lab) quiet(ctx context.Context) error {
	const still = 5 * time.Second
	return l.until(ctx, time.Minute, func() error {
		now := time.Now()
		asked, err := auditFile(l.audit(), now.Add(-still), now)
		if err != nil {
			return final{err}
		}
		if n := asked.sum(func(what string) bool { return !strings.Contains(what, "leases") && writes(what) }); n > 0 {
			return fmt.Errorf("%d writes within %s", n, still)
		}
		return nil
	})
}

func writes(what string) bool {
	verb, _, _ := strings.Cut(what, " ")
	return verb != "get" && verb != "list" && verb != "watch"
}

// burst makes so many pods at once, waits until all run, and clears up but for the
// last of the bursts.
func (l *lab) burst(ctx context.Context, r *report, n int) error {
	prefix := fmt.Sprintf("burst%d-", n)
	pid := l.subject.PID()
	forgetPeak(pid)
	cpu, from := cpuTime(pid), time.Now()
	following, stop := context.WithCancel(ctx)
	loops := &loops{url: "http://" + l.address + "/metrics"}
	loops.read(ctx)
	followed := make(chan struct{})
	go func() { defer close(followed); loops.follow(following) }()
	profiled := l.profile(following, fmt.Sprintf("burst%d", n))
	err := each(ctx, n, func(i int) error {
		return l.create(ctx, podOf(fmt.Sprintf("%s%05d", prefix, i), whole, wants(i)))
	})
	if err == nil {
		err = l.until(ctx, 10*time.Minute, func() error { return l.allRun(prefix, n) })
	}
	used := cpuTime(pid) - cpu
	stop()
	<-followed
	<-profiled
	if err != nil {
		return err
	}
	rss := memory(pid)
	asked, err := auditFile(l.audit(), from, time.Now())
	if err != nil {
		return err
	}
	calls := l.machines.since(from)
	r.burst(n, l.seen.lives(of(prefix)), calls, from)
	name := fmt.Sprintf("%d pods", n)
	nodes, _ := l.seen.nodes()
	r.add(name, "longest loop", loops.longest, "s", atMost(0.5), peerLoop[n])
	r.note("of which" + loops.of)
	r.add(name, "processor", used.Seconds(), "s", goalIf(n <= 2000, 2), peerCPU[n])
	r.add(name, "resident, peak", float64(rss.peak)/(1<<20), "MiB", goalIf(nodes <= 1300, 120), peerRSS[n])
	r.note(fmt.Sprintf("with %d nodes; %s at the end", nodes, rss.text()))
	r.add(name, "requests", float64(asked.sum(func(what string) bool { return true })), "", nil, "")
	r.note(asked.text())
	if n == l.o.pods[len(l.o.pods)-1] && l.o.surplus > 0 {
		return nil
	}
	return l.clear(ctx, prefix)
}

func (l *lab) allRun(prefix string, n int) error {
	run := 0
	for _, p := range l.seen.lives(of(prefix)) {
		if !p.running.IsZero() {
			run++
		}
	}
	if run < n {
		return fmt.Errorf("%d of %d pods run", run, n)
	}
	return nil
}

// clear removes a scene's pods, and every node that a pool made for it: the next one
// begins as this one did.
func (l *lab) clear(ctx context.Context, prefix string) error {
	if err := l.removePods(ctx, l.seen.lives(of(prefix))); err != nil {
		return err
	}
	for n := range l.o.pools {
		if err := l.shrink(ctx, growing(n)); err != nil {
			return err
		}
	}
	return l.until(ctx, 3*time.Minute, func() error {
		if n := l.machines.size(); n > 0 {
			return fmt.Errorf("%d machines are left", n)
		}
		for n := range l.o.pools {
			var p v1alpha1.GPUNodePool
			if err := l.client.Get(ctx, client.ObjectKey{Name: growing(n)}, &p); err != nil {
				return err
			}
			if p.Status.Target != 0 || p.Status.Size != 0 {
				return fmt.Errorf("pool %s: the autoscaler still sees %d nodes of %d", p.Name, p.Status.Size, p.Status.Target)
			}
		}
		return nil
	})
}

func (l *lab) shrink(ctx context.Context, pool string) error {
	text := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))
	return l.client.Patch(ctx, machineDeployment(pool), text)
}

func (l *lab) removePods(ctx context.Context, lives []life) error {
	now := client.GracePeriodSeconds(0)
	err := each(ctx, len(lives), func(i int) error {
		return client.IgnoreNotFound(l.client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: work, Name: lives[i].name}}, now))
	})
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, p := range lives {
		names[p.name] = true
	}
	return l.until(ctx, 2*time.Minute, func() error {
		if left := l.seen.lives(func(name string) bool { return names[name] }); len(left) > 0 {
			return fmt.Errorf("%d pods are left", len(left))
		}
		return nil
	})
}

// giveBack empties so many nodes of the last burst and waits until they are gone.
func (l *lab) giveBack(ctx context.Context, r *report) error {
	if l.o.surplus == 0 || !l.o.readers {
		return nil
	}
	prefix := fmt.Sprintf("burst%d-", l.o.pods[len(l.o.pods)-1])
	before := l.machines.size()
	surplus := min(l.o.surplus, before)
	empty, err := l.emptied(ctx, prefix, surplus)
	if err != nil {
		return err
	}
	from := time.Now()
	err = l.until(ctx, 10*time.Minute, func() error {
		if left := l.machines.size() - (before - empty); left > 0 {
			return fmt.Errorf("%d of %d surplus nodes are left", left, empty)
		}
		return nil
	})
	took := time.Since(from)
	if err != nil {
		return err
	}
	r.add("surplus", fmt.Sprintf("%d nodes gone", empty), took.Minutes(), "min", atMost(5), "10 of 110 in 25 min")
	r.note(fmt.Sprintf("since they are empty, idleAfter %s and a cooldown of 10s included", idleAfter))
	if wrong := l.machines.size() - (before - empty); wrong != 0 {
		r.fail("surplus", fmt.Sprintf("%d nodes more than the empty ones went", -wrong))
	}
	return l.clear(ctx, prefix)
}

// emptied removes all pods of so many nodes.
func (l *lab) emptied(ctx context.Context, prefix string, n int) (int, error) {
	var pods corev1.PodList
	if err := l.client.List(ctx, &pods, client.InNamespace(work)); err != nil {
		return 0, err
	}
	by := map[string][]life{}
	for i := range pods.Items {
		if p := &pods.Items[i]; strings.HasPrefix(p.Name, prefix) {
			by[p.Spec.NodeName] = append(by[p.Spec.NodeName], life{name: p.Name})
		}
	}
	// Nodes that never had a pod are surplus already: what was bought too much.
	var names []string
	for name := range by {
		names = append(names, name)
	}
	slices.Sort(names)
	already := l.machines.size() - len(names)
	var gone []life
	for _, name := range names[:max(0, min(n-already, len(names)))] {
		gone = append(gone, by[name]...)
	}
	return max(n, already), l.removePods(ctx, gone)
}

// gang makes a gang of eight nodes with room for five, then makes room, then one
// that comes member by member.
func (l *lab) gang(ctx context.Context, r *report) error {
	const members, room = 8, 5
	from := time.Now()
	if err := l.create(ctx, podGroup("gang", members)); err != nil {
		return err
	}
	if err := l.members(ctx, "gang", members); err != nil {
		return err
	}
	if err := l.pending(ctx, "gang-", members); err != nil {
		return err
	}
	if err := pause(ctx, 10*time.Second); err != nil {
		return err
	}
	bought := 0
	for _, c := range l.machines.since(from) {
		bought += int(c.to - c.from)
	}
	r.add("gang", fmt.Sprintf("nodes bought for %d with room for %d", members, room), float64(bought), "", atMost(0), "5")
	why, err := l.told(ctx, "gang-0")
	if err != nil {
		return err
	}
	r.note("said: " + why)
	if why == "" {
		r.fail("gang", "no Event says why nothing is bought")
	}
	from = time.Now()
	wider := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"max":8}}`))
	if err := l.client.Patch(ctx, pool(poolGang, 0, members, 98, true), wider); err != nil {
		return err
	}
	at, to, err := l.call(ctx, from, poolGang)
	if err != nil {
		return err
	}
	r.add("gang", "call once there is room", at.Sub(from).Seconds(), "s", atMost(1), "")
	r.note(fmt.Sprintf("one call, %d nodes", to))
	if to != members {
		r.fail("gang", fmt.Sprintf("the first call was for %d nodes, not %d", to, members))
	}
	if err := l.until(ctx, 2*time.Minute, func() error { return l.allRun("gang-", members) }); err != nil {
		return err
	}
	if err := l.removePods(ctx, l.seen.lives(of("gang-"))); err != nil {
		return err
	}
	return l.shrink(ctx, poolGang)
}

// members makes the pods of a gang.
func (l *lab) members(ctx context.Context, group string, n int) error {
	return each(ctx, n, func(i int) error {
		p := podOf(fmt.Sprintf("%s-%d", group, i), whole, cardsOfNode)
		p.Labels["scheduling.x-k8s.io/pod-group"] = group
		p.Spec.NodeSelector[v1alpha1.NodePoolLabel] = poolGang
		return l.create(ctx, p)
	})
}

func (l *lab) pending(ctx context.Context, prefix string, n int) error {
	return l.until(ctx, time.Minute, func() error {
		waits := 0
		for _, p := range l.seen.lives(of(prefix)) {
			if !p.pending.IsZero() {
				waits++
			}
		}
		if waits < n {
			return fmt.Errorf("the scheduler has answered for %d of %d pods", waits, n)
		}
		return nil
	})
}

// call waits for a pool's first call after a moment.
func (l *lab) call(ctx context.Context, after time.Time, pool string) (at time.Time, to int64, err error) {
	err = l.until(ctx, time.Minute, func() error {
		for _, c := range l.machines.since(after) {
			if c.pool == pool && c.to > c.from {
				at, to = c.at, c.to
				return nil
			}
		}
		return fmt.Errorf("pool %s has not been resized", pool)
	})
	return at, to, err
}

// told is what the last Event of the autoscaler's on a pod says.
func (l *lab) told(ctx context.Context, pod string) (string, error) {
	events, err := l.clients.EventsV1().Events(work).List(ctx, metav1.ListOptions{FieldSelector: "regarding.name=" + pod})
	if err != nil {
		return "", err
	}
	said := ""
	for i := range events.Items {
		if e := &events.Items[i]; strings.Contains(e.ReportingController, "gpuscale") {
			said = e.Reason + ": " + e.Note
		}
	}
	return said, nil
}

// mig: four pods want halves of cards that are cut in sevenths, of which one is
// held; and a node that is full of instances must not keep whole cards from being
// bought.
func (l *lab) mig(ctx context.Context, r *report) error {
	if !l.o.readers {
		return nil
	}
	return errors.Join(l.repartition(ctx, r), l.wholeBeside(ctx, r))
}

func (l *lab) repartition(ctx context.Context, r *report) error {
	in := func(p *corev1.Pod) *corev1.Pod {
		p.Spec.NodeSelector[v1alpha1.NodePoolLabel] = poolCut
		return p
	}
	if err := l.create(ctx, in(podOf("cut-held", one, 1))); err != nil {
		return err
	}
	if err := l.until(ctx, time.Minute, func() error { return l.allRun("cut-", 1) }); err != nil {
		return err
	}
	if err := pause(ctx, 2*instanceIdle); err != nil { // the others are free, and have been for a while
		return err
	}
	const halves = 4
	from := time.Now()
	for i := range halves {
		if err := l.create(ctx, in(podOf(fmt.Sprintf("halves-%d", i), half, 1))); err != nil {
			return err
		}
	}
	if err := l.pending(ctx, "halves-", 1); err != nil {
		return err
	}
	waits := slices.MinFunc(l.seen.lives(of("halves-")), func(a, b life) int {
		return cmp.Or(b.pending.Compare(time.Time{})-a.pending.Compare(time.Time{}), a.pending.Compare(b.pending))
	}).pending
	var asked time.Time
	if err := l.until(ctx, time.Minute, func() error {
		var nodes corev1.NodeList
		if err := l.client.List(ctx, &nodes, client.MatchingLabels{v1alpha1.NodePoolLabel: poolCut}); err != nil {
			return err
		}
		for i := range nodes.Items {
			if _, ok, err := partition.RecordOf(&nodes.Items[i]); ok && err == nil {
				asked = time.Now()
				return nil
			}
		}
		return errors.New("no node has been asked to cut a card")
	}); err != nil {
		return err
	}
	bought := 0
	for _, c := range l.machines.since(from) {
		bought += int(c.to - c.from)
	}
	r.add("MIG", "3g wanted, 1g free: request after", asked.Sub(waits).Seconds(), "s", atMost(5), "nothing, or a node")
	r.add("MIG", "nodes bought for it", float64(bought), "", atMost(0), "1")
	return l.removePods(ctx, append(l.seen.lives(of("halves-")), l.seen.lives(of("cut-"))...))
}

func (l *lab) wholeBeside(ctx context.Context, r *report) error {
	const n = 4
	from := time.Now()
	for i := range n {
		if err := l.create(ctx, podOf(fmt.Sprintf("beside-%d", i), whole, cardsOfNode)); err != nil {
			return err
		}
	}
	if err := l.until(ctx, 2*time.Minute, func() error { return l.allRun("beside-", n) }); err != nil {
		return err
	}
	bought := 0
	for _, c := range l.machines.since(from) {
		bought += int(c.to - c.from)
	}
	last := slices.MaxFunc(l.seen.lives(of("beside-")), func(a, b life) int { return a.running.Compare(b.running) })
	r.add("MIG", fmt.Sprintf("%d nodes wanted beside a busy, cut one: bought", n), float64(bought), "", atMost(n), "3, and the last pod waited")
	r.add("MIG", "all run after", last.running.Sub(from).Seconds(), "s", nil, "")
	return l.clear(ctx, "beside-")
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
