package cluster

import (
	"context"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	registration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	aggregator "k8s.io/kube-aggregator/pkg/client/clientset_generated/clientset"
)

// RouteAPI makes the API server pass requests for the API groups on to a
// server at 127.0.0.1:port, as it would to one in a pod. The server needs a
// certificate for the name <service>.<namespace>.svc (see ServingCert) and
// may start before or after this; WaitAPI waits until requests get through.
//
// There is no network in the sandbox that leads to a pod, and an endpoint on
// the loopback is not allowed. But the name of an ExternalName Service may be
// localhost, and its port is then taken from the APIService.
func (c *Cluster) RouteAPI(ctx context.Context, namespace, service string, port int, groups ...schema.GroupVersion) error {
	core, err := kubernetes.NewForConfig(c.RESTConfig())
	if err != nil {
		return fmt.Errorf("routing an API: %w", err)
	}
	_, err = core.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("routing an API: making namespace %s: %w", namespace, err)
	}
	_, err = core.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: service},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "localhost"},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("routing an API: making service %s/%s: %w", namespace, service, err)
	}
	apis, err := c.apiServices()
	if err != nil {
		return err
	}
	at := int32(port)
	for _, g := range groups {
		want := &registration.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: g.Version + "." + g.Group},
			Spec: registration.APIServiceSpec{
				Group: g.Group, Version: g.Version, GroupPriorityMinimum: 100, VersionPriority: 100,
				Service:  &registration.ServiceReference{Namespace: namespace, Name: service, Port: &at},
				CABundle: c.pki.servingCA.certPEM,
			},
		}
		_, err := apis.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // a second call moves it
			have, getErr := apis.Get(ctx, want.Name, metav1.GetOptions{})
			if getErr != nil {
				return fmt.Errorf("routing %s: %w", g, getErr)
			}
			have.Spec = want.Spec
			_, err = apis.Update(ctx, have, metav1.UpdateOptions{})
		}
		if err != nil {
			return fmt.Errorf("routing %s: %w", g, err)
		}
	}
	return nil
}

// WaitAPI waits until the API server reports all the groups as available. Its error
// is the API server's message.
func (c *Cluster) WaitAPI(ctx context.Context, groups ...schema.GroupVersion) error {
	apis, err := c.apiServices()
	if err != nil {
		return err
	}
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

// apiServices is the part of the aggregator's client that is used here.
func (c *Cluster) apiServices() (apiServiceClient, error) {
	client, err := aggregator.NewForConfig(c.RESTConfig())
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return client.ApiregistrationV1().APIServices(), nil
}

type apiServiceClient interface {
	Get(context.Context, string, metav1.GetOptions) (*registration.APIService, error)
	Create(context.Context, *registration.APIService, metav1.CreateOptions) (*registration.APIService, error)
	Update(context.Context, *registration.APIService, metav1.UpdateOptions) (*registration.APIService, error)
}
