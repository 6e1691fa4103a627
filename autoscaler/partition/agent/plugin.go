package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// pluginPause is the backoff between checks of a restarting device plugin.
var pluginPause = wait.Backoff{Duration: 20 * time.Millisecond, Factor: 2, Steps: 10, Cap: 500 * time.Millisecond}

// maxPlugins bounds the device plugin's pods on a node: a selector that matches more is wrong.
const maxPlugins = 4

// plugins returns the UIDs of the device plugin's pods on the node. There must be one: without it
// the new layout is never advertised.
func (a *Agent) plugins(ctx context.Context) ([]string, error) {
	pods, err := a.o.Cluster.pods(ctx, a.o.Config.DevicePlugin)
	if err != nil {
		return nil, err
	}
	if len(pods) == 0 {
		return nil, fmt.Errorf("no pod %s in namespace %s runs on this node: is devicePlugin right?",
			a.o.Config.DevicePlugin.Selector, a.o.Config.DevicePlugin.Namespace)
	}
	if len(pods) > maxPlugins {
		return nil, fmt.Errorf("%d pods %s in namespace %s run on this node, at most %d are restarted: is devicePlugin right?",
			len(pods), a.o.Config.DevicePlugin.Selector, a.o.Config.DevicePlugin.Namespace, maxPlugins)
	}
	uids := make([]string, len(pods))
	for i := range pods {
		uids[i] = string(pods[i].UID)
	}
	slices.Sort(uids)
	return uids, nil
}

// replacePlugins deletes the device plugin's pods with these UIDs and waits until new ones are
// ready.
func (a *Agent) replacePlugins(ctx context.Context, old []string) error {
	defer a.o.Metrics.timed(verbPlugin, time.Now())
	ctx, cancel := context.WithTimeout(ctx, a.o.Config.PluginTimeout.Duration)
	defer cancel()
	var last error
	err := pluginPause.DelayFunc().Until(ctx, true, false, func(ctx context.Context) (fresh bool, _ error) {
		a.Health.beat()
		fresh, last = a.replaced(ctx, old)
		return fresh && last == nil, nil
	})
	switch {
	case err == nil:
		return nil
	case last != nil:
		return fmt.Errorf("restarting the device plugin: %w", last)
	}
	return fmt.Errorf("the device plugin is not ready again after %s", a.o.Config.PluginTimeout.Duration)
}

// replaced deletes those of the device plugin's pods that are old; fresh reports whether another
// one is ready.
func (a *Agent) replaced(ctx context.Context, old []string) (fresh bool, err error) {
	pods, err := a.o.Cluster.pods(ctx, a.o.Config.DevicePlugin)
	for i := range pods {
		switch p := &pods[i]; {
		case p.DeletionTimestamp != nil:
		case slices.Contains(old, string(p.UID)):
			err = a.o.Cluster.remove(ctx, p)
		default:
			fresh = fresh || ready(p)
		}
	}
	return fresh, err
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
