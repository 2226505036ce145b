package main

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// worker is the service worker, which keeps the site for use without a network.
const worker = "sw.js"

//go:embed sw.js
var workerScript string

// addWorker adds the worker, which names all other files. Its version changes
// with the content of any of them.
func (o *output) addWorker() error {
	hash := sha256.New()
	var names []string
	for _, name := range o.names() {
		fmt.Fprintf(hash, "%s %d\n", name, len(o.files[name]))
		_, _ = hash.Write(o.files[name])
		names = append(names, relative("index.html", name))
	}
	list, err := json.Marshal(names)
	if err != nil {
		return err
	}
	script := strings.NewReplacer(
		`"VERSION"`, `"`+hex.EncodeToString(hash.Sum(nil))[:16]+`"`,
		`["FILES"]`, string(list),
	).Replace(workerScript)
	return o.addFile(worker, []byte(script))
}
