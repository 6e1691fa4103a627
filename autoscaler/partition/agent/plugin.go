package agent

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// pluginEvery is how often a device plugin that starts again is looked at.
const pluginEvery = 500 * time.Millisecond

// maxPlugins on a node: a selector that picks more is not the device plugin's.
const maxPlugins = 4

// plugins are the UIDs of the device plugin's pods on the node. There must be one:
// without it nobody would ever offer the new layout.
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

// replacePlugins deletes the device plugin's pods with these UIDs and waits until
// others are ready in their place.
func (a *Agent) replacePlugins(ctx context.Context, old []string) error {
	defer a.o.Metrics.timed(verbPlugin, time.Now())
	ctx, cancel := context.WithTimeout(ctx, a.o.Config.PluginTimeout.Duration)
	defer cancel()
	for {
		a.Health.beat()
		pods, err := a.o.Cluster.pods(ctx, a.o.Config.DevicePlugin)
		if err == nil {
			fresh := false
			for i := range pods {
				p := &pods[i]
				isOld := slices.Contains(old, string(p.UID))
				if isOld && p.DeletionTimestamp == nil {
					err = a.o.Cluster.remove(ctx, p)
				}
				fresh = fresh || !isOld && p.DeletionTimestamp == nil && ready(p)
			}
			if fresh && err == nil {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("restarting the device plugin: %w", err)
			}
			return fmt.Errorf("the device plugin is not ready again after %s", a.o.Config.PluginTimeout.Duration)
		case <-time.After(pluginEvery):
		}
	}
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
