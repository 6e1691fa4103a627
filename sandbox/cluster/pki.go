package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// validity of certificates: a sandbox lives for hours.
const validity = 30 * 24 * time.Hour

// pair is a certificate and its key, PEM.
type pair struct{ certPEM, keyPEM []byte }

// authority signs certificates.
type authority struct {
	certPEM []byte
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	made, err := cert.NewSelfSignedCACert(cert.Config{CommonName: name}, key)
	if err != nil {
		return nil, err
	}
	certPEM, err := cert.EncodeCertificates(made)
	return &authority{certPEM: certPEM, cert: made, key: key}, err
}

// client makes a client certificate. Kubernetes reads the user from its common name and the groups from its
// organisations.
func (a *authority) client(user string, groups ...string) (pair, error) {
	return a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

// serving makes a serving certificate. etcd also uses it as a client of itself.
func (a *authority) serving(names ...string) (pair, error) {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: names[0]},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	return a.issue(template)
}

func (a *authority) issue(template *x509.Certificate) (pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pair{}, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return pair{}, err
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(validity)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return pair{certPEM: pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: der}), keyPEM: keyPEM}, err
}

// pki has all keys of one cluster. There are four authorities, so that a certificate for one purpose is not
// accepted for another: a client of the API server must not be able to read etcd, or to act as the front
// proxy or as a webhook.
type pki struct {
	dir          string
	ca           *authority // API server and its clients
	etcdCA       *authority
	frontProxyCA *authority
	servingCA    *authority // adapters and webhooks
	admin        pair
}

func newPKI(dir string) (*pki, error) {
	p := &pki{dir: dir}
	for _, a := range []struct {
		into **authority
		name string
	}{
		{&p.ca, "ca"}, {&p.etcdCA, "etcd-ca"}, {&p.frontProxyCA, "front-proxy-ca"}, {&p.servingCA, "serving-ca"},
	} {
		made, err := newAuthority("gpuscale sandbox " + a.name)
		if err != nil {
			return nil, err
		}
		*a.into = made
		if err := p.write(a.name+".crt", made.certPEM); err != nil {
			return nil, err
		}
	}
	caKey, err := keyutil.MarshalPrivateKeyToPEM(p.ca.key)
	if err != nil {
		return nil, err
	}
	if err := p.write("ca.key", caKey); err != nil { // for CertificateSigningRequests
		return nil, err
	}
	tokenKey, err := keyutil.MakeEllipticPrivateKeyPEM() // signs the tokens of service accounts
	if err != nil {
		return nil, err
	}
	if err := p.write("sa.key", tokenKey); err != nil {
		return nil, err
	}
	// The names under which pods and users reach the API server.
	names := []string{"kubernetes", "localhost", "kubernetes.default", "kubernetes.default.svc",
		"kubernetes.default.svc.cluster.local", "127.0.0.1", serviceIP}
	for _, c := range []struct {
		name string
		make func() (pair, error)
	}{
		{"apiserver", func() (pair, error) { return p.ca.serving(names...) }},
		{"controllers", func() (pair, error) { return p.ca.serving("localhost", "127.0.0.1") }},
		{"etcd", func() (pair, error) { return p.etcdCA.serving("localhost", "127.0.0.1") }},
		{"etcd-client", func() (pair, error) { return p.etcdCA.client("kube-apiserver") }},
		{"front-proxy", func() (pair, error) { return p.frontProxyCA.client("front-proxy-client") }},
		{"kubelet-client", func() (pair, error) { return p.ca.client("kube-apiserver-kubelet-client", "system:masters") }},
	} {
		made, err := c.make()
		if err != nil {
			return nil, err
		}
		if err := p.writePair(c.name, made); err != nil {
			return nil, err
		}
	}
	p.admin, err = p.ca.client("admin", "system:masters")
	return p, err
}

func (p *pki) path(name string) string { return filepath.Join(p.dir, name) }

func (p *pki) writePair(name string, made pair) error {
	if err := p.write(name+".crt", made.certPEM); err != nil {
		return err
	}
	return p.write(name+".key", made.keyPEM)
}

func (p *pki) write(name string, data []byte) error {
	if err := os.WriteFile(p.path(name), data, 0o600); err != nil {
		return fmt.Errorf("writing %s: %w", name, err)
	}
	return nil
}
