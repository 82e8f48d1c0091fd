// Fetches a file from `examples/h3_server` with quic-go, or serves a folder to `examples/h3_client`.
//
//	go run . get URL            prints the bytes and the SHA-256
//	go run . serve DIR ADDRESS CERT KEY
package main

import (
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"

	"github.com/quic-go/quic-go/http3"
)

func get(url string) error {
	// The certificate is the server's own, which nobody vouches for.
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.Close()
	answer, err := (&http.Client{Transport: transport}).Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	digest := sha256.New()
	bytes, err := io.Copy(digest, answer.Body)
	if err != nil {
		return err
	}
	fmt.Printf("%s %d bytes %x\n", answer.Status, bytes, digest.Sum(nil))
	return nil
}

func main() {
	switch {
	case len(os.Args) == 3 && os.Args[1] == "get":
		if err := get(os.Args[2]); err != nil {
			log.Fatal(err)
		}
	case len(os.Args) == 6 && os.Args[1] == "serve":
		handler := http.FileServer(http.Dir(os.Args[2]))
		log.Fatal(http3.ListenAndServeQUIC(os.Args[3], os.Args[4], os.Args[5], handler))
	default:
		log.Fatal("usage: get URL, or serve DIR ADDRESS CERT KEY")
	}
}
