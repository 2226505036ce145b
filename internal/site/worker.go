package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// worker is the service worker, which keeps the site for use without a network.
const worker = "sw.js"

//go:embed sw.js
var workerScript string

// noFiles is what workerScript has in place of the files.
const noFiles = `{"FILES": ""}`

// addWorker adds the worker, which names all other files with a hash of each.
// So it changes with any of them, and fetches those that have changed.
func (o *output) addWorker() error {
	hashes := make(map[string]string)
	for name, content := range o.files {
		hash := sha256.Sum256(content)
		hashes[strings.TrimPrefix(relative("index.html", name), "./")] = hex.EncodeToString(hash[:8])
	}
	list, err := json.Marshal(hashes)
	if err != nil {
		return err
	}
	return o.addFile(worker, []byte(strings.Replace(workerScript, noFiles, string(list), 1)))
}
