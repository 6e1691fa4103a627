package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// tokenLife is the lifetime of service account tokens. It is longer than any sandbox lives.
const tokenLife = 7 * 24 * time.Hour

// KubeconfigFor writes a kubeconfig with a client certificate for the user and groups, and returns its path.
// RBAC decides what that user may do.
func (c *Cluster) KubeconfigFor(user string, groups ...string) (string, error) {
	path := c.kubeconfigPath(fileName(user))
	return path, c.writeClientKubeconfig(path, user, groups)
}

// ServiceAccountKubeconfig writes a kubeconfig with a token of the service account and returns its path.
func (c *Cluster) ServiceAccountKubeconfig(ctx context.Context, namespace, name string) (string, error) {
	token, err := c.Token(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	path := c.kubeconfigPath(fileName("sa-" + namespace + "-" + name))
	return path, c.writeKubeconfig(path, name, clientcmdapi.AuthInfo{Token: token})
}

// Token returns a token of an existing service account. It is valid for a week.
func (c *Cluster) Token(ctx context.Context, namespace, name string) (string, error) {
	seconds := int64(tokenLife.Seconds())
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("asking for a token of service account %s/%s: %w", namespace, name, err)
	}
	return token.Status.Token, nil
}

func (c *Cluster) writeClientKubeconfig(path, user string, groups []string) error {
	made, err := c.pki.ca.client(user, groups...)
	if err != nil {
		return fmt.Errorf("making a certificate for %s: %w", user, err)
	}
	return c.writeKubeconfig(path, user, clientcmdapi.AuthInfo{ClientCertificateData: made.certPEM, ClientKeyData: made.keyPEM})
}

func (c *Cluster) writeKubeconfig(path, user string, who clientcmdapi.AuthInfo) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["sandbox"] = &clientcmdapi.Cluster{Server: c.URL(), CertificateAuthorityData: c.pki.ca.certPEM}
	config.AuthInfos[user] = &who
	config.Contexts["sandbox"] = &clientcmdapi.Context{Cluster: "sandbox", AuthInfo: user}
	config.CurrentContext = "sandbox"
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		return fmt.Errorf("writing the kubeconfig of %s: %w", user, err)
	}
	return nil
}

func (c *Cluster) kubeconfigPath(name string) string {
	return filepath.Join(c.dir, name+".kubeconfig")
}

func fileName(user string) string {
	return strings.NewReplacer(":", "-", "/", "-").Replace(user)
}
