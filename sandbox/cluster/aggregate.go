package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
)

// WaitAPI waits until the API server reports all the groups as available. Its error
// is the API server's message.
func (c *Cluster) WaitAPI(ctx context.Context, groups ...schema.GroupVersion) error {
	made, err := aggregator.NewForConfig(c.RESTConfig())
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	apis := made.ApiregistrationV1().APIServices()
	missing := map[string]string{}
	for _, g := range groups {
		missing[g.Version+"."+g.Group] = "not looked at yet"
	}
	err = c.Await(ctx, func(ctx context.Context) error {
		for _, name := range slices.Sorted(maps.Keys(missing)) {
			api, err := apis.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				missing[name] = err.Error()
				continue
			}
			for _, cond := range api.Status.Conditions {
				switch {
				case cond.Type != registration.Available:
				case cond.Status == registration.ConditionTrue:
					delete(missing, name)
				default:
					missing[name] = cond.Reason + ": " + cond.Message
				}
			}
		}
		if len(missing) == 0 {
			return nil
		}
		return fmt.Errorf("%v", missing)
	})
	if err != nil {
		return fmt.Errorf("waiting for aggregated APIs: %w", err)
	}
	return nil
}
