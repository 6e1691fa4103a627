package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/internal/await"
	"github.com/gpuscale/gpuscale/internal/procstat"
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
	cpu, from := procstat.CPU(pid), time.Now()
	if err := pause(ctx, l.o.idle); err != nil {
		return err
	}
	took := time.Since(from)
	rss := procstat.Memory(pid)
	r.add("idle", "processor", (procstat.CPU(pid)-cpu).Seconds()/took.Seconds(), "core", atMost(0.01), "0.011")
	r.add("idle", "resident", float64(rss.Now)/(1<<20), "MiB", nil, "")
	r.note(fileText(rss))
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
			return await.Final(err)
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
	procstat.ForgetPeak(pid)
	cpu, from := procstat.CPU(pid), time.Now()
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
	used := procstat.CPU(pid) - cpu
	stop()
	<-followed
	<-profiled
	if err != nil {
		return err
	}
	rss := procstat.Memory(pid)
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
	r.add(name, "resident, peak", float64(rss.Peak)/(1<<20), "MiB", goalIf(nodes <= 1300, 120), peerRSS[n])
	r.note(fmt.Sprintf("with %d nodes; %s at the end", nodes, fileText(rss)))
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

// fileText says how much of a program's memory is its file.
func fileText(r procstat.Resident) string {
	return fmt.Sprintf("%.0f MiB of it pages of the program's file", float64(r.File)/(1<<20))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
