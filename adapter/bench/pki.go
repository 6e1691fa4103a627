package main

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// authority signs certificates for one run.
type authority struct {
	cert *x509.Certificate
	key  *rsa.PrivateKey
	pem  []byte
}

// pair is a certificate and its key, PEM.
type pair struct{ cert, key []byte }

// certificates are those a cluster has: one authority for servers, one for
// users, one for the aggregator.
type certificates struct {
	servers, users, proxies *authority
	// server is everybody's on 127.0.0.1; proxy is the aggregator's; admin is a
	// user whom no authorizer is asked about.
	server, proxy, admin pair
}

func newCertificates() (c certificates, err error) {
	for _, a := range []struct {
		to   **authority
		name string
	}{{&c.servers, "bench-servers"}, {&c.users, "bench-users"}, {&c.proxies, "bench-front-proxy"}} {
		if *a.to, err = newAuthority(a.name); err != nil {
			return c, err
		}
	}
	if c.server, err = c.servers.issue(pkix.Name{CommonName: "localhost"}); err != nil {
		return c, err
	}
	if c.proxy, err = c.proxies.issue(pkix.Name{CommonName: "front-proxy-client"}); err != nil {
		return c, err
	}
	c.admin, err = c.users.issue(pkix.Name{CommonName: "bench", Organization: []string{"system:masters"}})
	return c, err
}

// keyBits of an RSA key, as kubeadm makes them. The adapter verifies the
// aggregator's certificate with each request, which with an elliptic curve's
// would take a sixth of all its time.
const keyBits = 2048

func newAuthority(name string) (*authority, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return nil, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("making authority %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key, pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}, err
}

func (a *authority) issue(subject pkix.Name) (pair, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return pair{}, fmt.Errorf("making a key: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: subject, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return pair{}, fmt.Errorf("making a certificate for %s: %w", subject.CommonName, err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}, nil
}
