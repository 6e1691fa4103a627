package explain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	autoscaling "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/adapter/provider"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// Cluster reads the API server.
type Cluster struct {
	Kube    kubernetes.Interface
	dynamic dynamic.Interface
	meta    metadata.Interface
	kinds   meta.RESTMapper // asks for the cluster's kinds when it is first used
}

// NewCluster returns the cluster of an API server. It sends no request.
func NewCluster(rc *rest.Config) (c Cluster, err error) {
	typed, err1 := kubernetes.NewForConfig(rc)
	untyped, err2 := dynamic.NewForConfig(rc)
	bare, err3 := metadata.NewForConfig(rc)
	if err := errors.Join(err1, err2, err3); err != nil {
		return c, fmt.Errorf("building the Kubernetes client: %w", err)
	}
	return Cluster{typed, untyped, bare, restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(typed.Discovery()))}, nil
}

// World is the state of the API server at one time.
type World struct {
	HPA autoscaling.HorizontalPodAutoscaler
	// Scale of the target.
	provider.Scale
	// Pods that the scale selects, as the HPA sees them: it includes those that have
	// ended.
	Pods []hpa.Pod
	// adapter has what the adapter sees: the pods that it counts, and scales.
	adapter provider.Answerer
	kinds   meta.RESTMapper
}

// Read reads everything about an HPA. given, if not nil, replaces the one in the
// cluster; changes are those of [Set].
func (c Cluster) Read(ctx context.Context, namespace, name string, given *autoscaling.HorizontalPodAutoscaler, changes []string) (w World, err error) {
	if given == nil {
		if given, err = c.hpa(ctx, namespace, name); err != nil {
			return w, err
		}
	}
	w.HPA, w.kinds, w.adapter.Scales = *given, c.kinds, provider.NewScales(c.dynamic)
	w.HPA.Namespace = namespace
	if w.HPA.Spec, err = Set(hpa.Defaulted(given.Spec), changes); err != nil {
		return w, err
	}
	if w.Scale, err = w.scale(ctx); err != nil {
		return w, err
	}
	pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: w.Selector.String()})
	if err != nil {
		return w, allowed(fmt.Errorf("listing the pods of namespace %s: %w", namespace, err))
	}
	for _, p := range pods.Items {
		w.Pods = append(w.Pods, hpa.Pod{Name: p.Name, Phase: p.Status.Phase, Ready: kube.PodReady(&p), Deleted: p.DeletionTimestamp != nil})
	}
	informers, err := provider.NewInformers(c.meta, c.Kube)
	if err != nil {
		return w, err
	}
	w.adapter.Pods = informers
	if err := informers.List(ctx, namespace); err != nil {
		return w, allowed(err)
	}
	return w, nil
}

// hpa reads the HPA. If it does not exist, the error names those that do.
func (c Cluster) hpa(ctx context.Context, namespace, name string) (*autoscaling.HorizontalPodAutoscaler, error) {
	of := c.Kube.AutoscalingV2().HorizontalPodAutoscalers(namespace)
	h, err := of.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return h, nil
	}
	err = allowed(fmt.Errorf("reading HorizontalPodAutoscaler %s/%s: %w", namespace, name, err))
	if !apierrors.IsNotFound(err) {
		return nil, err
	}
	if list, unlisted := of.List(ctx, metav1.ListOptions{}); unlisted == nil {
		var names []string
		for _, h := range list.Items {
			names = append(names, h.Name)
		}
		slices.Sort(names)
		err = fmt.Errorf("%w; namespace %s has %s", err, namespace, cmp.Or(strings.Join(names, ", "), "none"))
	}
	return nil, err
}

// scale reads the target's scale.
func (w World) scale(ctx context.Context) (s provider.Scale, err error) {
	target, err := w.objectOf(w.HPA.Spec.ScaleTargetRef)
	if err == nil {
		s, err = w.adapter.Scales.Scale(ctx, target.Resource, target.Ref.Namespace, target.Ref.Name)
	}
	if err == nil && s.Selector == nil {
		err = errors.New("its scale has no selector, which an HPA needs")
	}
	if err != nil {
		err = allowed(fmt.Errorf("%s %s/%s: %w", target.Ref.Kind, target.Ref.Namespace, target.Ref.Name, err))
	}
	return s, err
}

// allowed adds the required rights to an error of authorization. An error of authentication gets no
// such hint: more rights do not help an unknown caller.
func allowed(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w: explain needs the role view in that namespace, and get on the target's scale", err)
	}
	return kube.Advised(err)
}

// reports returns the message of the HPA's condition that has a reason; "" if none
// has it.
func (w World) reports(reason string) string {
	for _, c := range w.HPA.Status.Conditions {
		if c.Reason == reason {
			return cmp.Or(c.Message, reason)
		}
	}
	return ""
}
