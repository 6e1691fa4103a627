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

// pair is a certificate and its key, PEM.
type pair struct{ cert, key []byte }

// certificates of one run, all signed by one authority: of servers on 127.0.0.1,
// of the aggregator, and of a user in system:masters.
type certificates struct {
	authority            []byte
	server, proxy, admin pair
}

// keyBits of an RSA key, as kubeadm makes them. The adapter verifies the
// aggregator's certificate with each request, which would take a sixth of its
// CPU time with an elliptic curve.
const keyBits = 2048

func newCertificates() (c certificates, err error) {
	ca := &x509.Certificate{Subject: pkix.Name{CommonName: "bench"}, KeyUsage: x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true}
	root, key, err := sign(ca, ca, nil)
	if err != nil {
		return c, err
	}
	c.authority = root.cert
	for _, leaf := range []struct {
		to      *pair
		subject pkix.Name
	}{
		{&c.server, pkix.Name{CommonName: "localhost"}},
		{&c.proxy, pkix.Name{CommonName: "front-proxy-client"}},
		{&c.admin, pkix.Name{CommonName: "bench", Organization: []string{"system:masters"}}},
	} {
		if *leaf.to, _, err = sign(&x509.Certificate{
			Subject: leaf.subject, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
			DNSNames:    []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		}, ca, key); err != nil {
			return c, err
		}
	}
	return c, nil
}

// sign makes a key and its certificate, self-signed without a signer.
func sign(template, parent *x509.Certificate, signer *rsa.PrivateKey) (pair, *rsa.PrivateKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, keyBits)
	if err != nil {
		return pair{}, nil, fmt.Errorf("making a key: %w", err)
	}
	if signer == nil {
		signer = key
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return pair{}, nil, fmt.Errorf("making a certificate for %s: %w", template.Subject.CommonName, err)
	}
	return pair{
		cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:  pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}),
	}, key, nil
}
