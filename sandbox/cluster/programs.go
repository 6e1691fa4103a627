package cluster

import (
	"path/filepath"
	"strconv"

	"github.com/gpuscale/gpuscale/sandbox/proc"
)

// ServiceRange has the addresses of Services.
const ServiceRange = "10.96.0.0/16"

const (
	serviceIP = "10.96.0.1" // of the Service default/kubernetes
	podRange  = "10.128.0.0/9"
)

// spec returns the process of a control plane program: its flags, then the caller's additional flags.
func (c *Cluster) spec(name string, args ...string) proc.Spec {
	return proc.Spec{
		Name: name,
		Path: c.opts.Binaries.Program(name),
		Args: append(args, c.opts.ExtraArgs[name]...),
		Dir:  c.dir,
		Log:  c.LogFile(name),
	}
}

func (c *Cluster) etcdSpec() proc.Spec {
	client, peer := "https://"+local(c.ports.etcd), "https://"+local(c.ports.etcdPeer)
	cert, key, ca := c.pki.path("etcd.crt"), c.pki.path("etcd.key"), c.pki.path("etcd-ca.crt")
	return c.spec(Etcd,
		"--name=sandbox", "--data-dir="+filepath.Join(c.dir, "etcd"),
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=sandbox="+peer,
		"--client-cert-auth", "--cert-file="+cert, "--key-file="+key, "--trusted-ca-file="+ca,
		"--peer-client-cert-auth", "--peer-cert-file="+cert, "--peer-key-file="+key, "--peer-trusted-ca-file="+ca,
		// The data need not outlive the sandbox.
		"--unsafe-no-fsync",
		// A single member elects itself at once; by default it waits a second.
		"--heartbeat-interval=10", "--election-timeout=100",
		"--quota-backend-bytes="+strconv.Itoa(8<<30), "--log-level=warn",
	)
}

func (c *Cluster) apiServerSpec() proc.Spec {
	p := c.pki
	args := []string{
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.ports.apiServer),
		"--tls-cert-file=" + p.path("apiserver.crt"), "--tls-private-key-file=" + p.path("apiserver.key"),
		"--client-ca-file=" + p.path("ca.crt"),
		"--authorization-mode=Node,RBAC", "--anonymous-auth=true",
		"--etcd-servers=https://" + local(c.ports.etcd), "--etcd-cafile=" + p.path("etcd-ca.crt"),
		"--etcd-certfile=" + p.path("etcd-client.crt"), "--etcd-keyfile=" + p.path("etcd-client.key"),
		"--service-cluster-ip-range=" + ServiceRange, "--allow-privileged=true",
		// The API server may not be an endpoint on the loopback, and nothing requires it.
		"--endpoint-reconciler-type=none",
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + p.path("sa.key"), "--service-account-signing-key-file=" + p.path("sa.key"),
		"--kubelet-client-certificate=" + p.path("kubelet-client.crt"), "--kubelet-client-key=" + p.path("kubelet-client.key"),
		// The certificate by which aggregated API servers recognize the API server.
		"--proxy-client-cert-file=" + p.path("front-proxy.crt"), "--proxy-client-key-file=" + p.path("front-proxy.key"),
		"--requestheader-client-ca-file=" + p.path("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--profiling=false",
	}
	if c.egress != nil {
		args = append(args, "--egress-selector-config-file="+c.egressConfig())
	}
	return c.spec(APIServer, append(args, c.featureGates()...)...)
}

func (c *Cluster) controllerManagerSpec() proc.Spec {
	p := c.pki
	kubeconfig := c.kubeconfigPath(ControllerManager)
	args := []string{
		"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.ports.controllerManager),
		"--tls-cert-file=" + p.path("controllers.crt"), "--tls-private-key-file=" + p.path("controllers.key"),
		"--leader-elect=false", "--use-service-account-credentials",
		"--service-account-private-key-file=" + p.path("sa.key"), "--root-ca-file=" + p.path("ca.crt"),
		"--cluster-signing-cert-file=" + p.path("ca.crt"), "--cluster-signing-key-file=" + p.path("ca.key"),
		"--kube-api-qps=500", "--kube-api-burst=1000",
		// How long a node's lease may be overdue. This value suits thousands of KWOK nodes on a small machine.
		"--node-monitor-grace-period=900s",
		"--horizontal-pod-autoscaler-sync-period=1s",
		"--horizontal-pod-autoscaler-downscale-stabilization=0s",
		"--horizontal-pod-autoscaler-initial-readiness-delay=0s",
		"--horizontal-pod-autoscaler-cpu-initialization-period=0s",
		"--profiling=false",
	}
	return c.spec(ControllerManager, append(args, c.featureGates()...)...)
}

func (c *Cluster) schedulerSpec() proc.Spec {
	kubeconfig := c.kubeconfigPath(Scheduler)
	args := []string{
		"--config=" + filepath.Join(c.dir, "scheduler.yaml"),
		"--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(c.ports.scheduler),
		"--tls-cert-file=" + c.pki.path("controllers.crt"), "--tls-private-key-file=" + c.pki.path("controllers.key"),
	}
	return c.spec(Scheduler, append(args, c.featureGates()...)...)
}

func (c *Cluster) kwokSpec() proc.Spec {
	return c.spec(KWOK,
		"--kubeconfig="+c.kubeconfigPath(KWOK), "--config="+filepath.Join(c.dir, "stages.yaml"),
		"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
		"--cidr="+podRange, "--node-ip=127.0.0.1",
		// Long enough for KWOK to renew it in time, and not more often than thousands of nodes allow.
		"--node-lease-duration-seconds=600",
		// KWOK also answers as the kubelet of its nodes: logs, exec, port-forward.
		"--server-address="+local(c.ports.kwok), "--node-port="+strconv.Itoa(c.ports.kwok),
	)
}

func (c *Cluster) featureGates() []string {
	if c.opts.FeatureGates == "" {
		return nil
	}
	return []string{"--feature-gates=" + c.opts.FeatureGates}
}

// schedulerConfig makes the scheduler retry a pod that did not fit after one or two seconds; the default goes
// up to ten.
func (c *Cluster) schedulerConfig() []byte {
	return []byte(`apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: ` + strconv.Quote(c.kubeconfigPath(Scheduler)) + `
  qps: 500
  burst: 1000
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
`)
}
