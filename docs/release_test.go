package docs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/soak"
)

// releasing is a clone of this repository, as it is on disk, that scripts/release
// releases.
type releasing struct {
	t   *testing.T
	dir string
}

func newReleasing(t *testing.T) releasing {
	t.Helper()
	if err := exec.Command("git", "rev-parse", "HEAD").Run(); err != nil {
		t.Skip("this is no clone of the repository")
	}
	r := releasing{t, filepath.Join(t.TempDir(), "clone")}
	clone := exec.Command("bash", "-euc", `. scripts/modules.sh; . scripts/local-release.sh; clone_tree "$0"`, r.dir)
	clone.Dir = ".."
	out, err := clone.CombinedOutput()
	require.NoError(t, err, "%s", out)
	r.git("config", "user.name", "ann")
	r.git("config", "user.email", "ann@example.com")
	return r
}

func (r releasing) git(args ...string) string {
	r.t.Helper()
	git := exec.Command("git", args...)
	git.Dir = r.dir
	out, err := git.CombinedOutput()
	require.NoError(r.t, err, "git %s: %s", args, out)
	return string(out)
}

// write replaces a file, and commits it.
func (r releasing) write(file, text string) {
	r.t.Helper()
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, file), []byte(text), 0o600))
	r.git("add", "-A")
	r.git("commit", "-qm", file)
}

// release runs scripts/release, and returns what it prints.
func (r releasing) release(args ...string) (string, error) {
	script := exec.Command("scripts/release", args...)
	script.Path = filepath.Join(r.dir, "scripts/release")
	script.Dir = r.dir
	out, err := script.CombinedOutput()
	return string(out), err
}

func TestReleaseRefusesWhatItCannotPublish(t *testing.T) {
	t.Parallel()
	r := newReleasing(t)
	refuses := func(says string, args ...string) {
		t.Helper()
		out, err := r.release(args...)
		require.Error(t, err, "%s", args)
		require.True(t, strings.HasSuffix(out, "scripts/release: "+says+"\n"), "%s says %s", args, out) // git says first why it can't read
	}
	for _, version := range []string{"v1", "1.2", "v1.2", "1.2.0", "v1.2.0-rc.1", "v01.2.0", "v1.2.0.0", "latest"} {
		refuses(`version "`+version+`": write v and three numbers, such as v1.2.0`, version, "-rehearse")
	}
	refuses("version v2.0.0: from v2 on the paths of the modules end in their major version", "v2.0.0", "-rehearse")
	refuses("write scripts/release VERSION -rehearse, or -publish", "v1.2.0")
	refuses("write scripts/release VERSION -rehearse, or -publish", "-publish")
	refuses("flag -reherse: write -rehearse, or -publish", "v1.2.0", "-reherse")
	refuses("v1.3.0: there is one version already, v1.2.0", "v1.2.0", "v1.3.0", "-rehearse")

	r.git("tag", "v1.2.0")
	r.git("tag", "grpclimit/v1.3.0")
	refuses("version v1.2.0: there is a tag v1.2.0", "v1.2.0", "-rehearse")
	refuses("version v1.3.0: there is a tag grpclimit/v1.3.0", "v1.3.0", "-rehearse")
	refuses("version v1.1.9: the last one is v1.2.0", "v1.1.9", "-rehearse")

	other := newReleasing(t)
	r.write("later.txt", "what the other lacks")
	refuses("remote nowhere: git can't read nowhere", "v1.10.0", "-publish", "-remote", "nowhere")
	refuses("remote "+other.dir+": its branch main is not at HEAD: push or pull first", "v1.10.0", "-publish", "-remote", other.dir)
	r.git("push", "-q", other.dir, "HEAD:refs/heads/main", "HEAD:refs/tags/mcplimit/v1.10.0")
	refuses("version v1.10.0: "+other.dir+" has a tag mcplimit/v1.10.0", "v1.10.0", "-publish", "-remote", other.dir)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "new.txt"), nil, 0o600))
	refuses("commit or remove what git status shows: what is published is a commit", "v1.10.0", "-publish", "-remote", other.dir)

	r.write("CHANGELOG.md", "# Changes\n\n## Unreleased\n\n## 1.2.0 - 2026-01-01\n\n- Something.\n")
	refuses(`CHANGELOG.md: "## Unreleased" names no change`, "v1.10.0", "-rehearse")
}

// All that a maintainer runs is -publish. A bare repository stands for GitHub.
func TestReleasePublishesWhatItRehearsed(t *testing.T) {
	soak.Only(t, TestReleaseRefusesWhatItCannotPublish)
	if soak.Budget(0, 1) < 1 {
		t.Skip("compiles for six platforms: ./scripts/soak with 15 minutes or more")
	}
	r := newReleasing(t)
	for _, needed := range []string{"ssh-keygen", "curl"} {
		if _, err := exec.LookPath(needed); err != nil {
			t.Skip(err)
		}
	}
	key := filepath.Join(t.TempDir(), "key")
	require.NoError(t, exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).Run())
	public := string(read(t, key+".pub"))
	require.NoError(t, os.WriteFile(key+".signers", []byte("ann@example.com "+public), 0o600))
	r.git("config", "gpg.format", "ssh")
	r.git("config", "user.signingkey", key+".pub")
	r.git("config", "gpg.ssh.allowedSignersFile", key+".signers")

	r.git("tag", "v1.0.0")
	r.write("ginlimit/since.go", "package ginlimit\n\n// Since is new.\nfunc Since() {}\n")
	r.write("CHANGELOG.md", "# Changes\n\n## Unreleased\n\n### Added\n\n- `ginlimit.Since`.\n\n## 1.0.0 - 2026-01-01\n\n- Something.\n")
	remote := filepath.Join(t.TempDir(), "bare.git")
	r.git("init", "-q", "--bare", remote)
	r.git("push", "-q", remote, "HEAD:refs/heads/main")
	out, err := r.release("v1.1.0", "-publish", "-remote", remote)
	require.NoError(t, err, "%s", out)
	require.Contains(t, out, "gh release create v1.1.0 --repo tokenbucket-go/ratelimit --verify-tag")

	require.Equal(t, "v1.0.0", strings.TrimSpace(r.git("tag")), "what is tried leaves no tags here")
	r.git("fetch", "-q", "--tags", remote, "main")
	tags := strings.Fields(r.git("tag"))
	require.ElementsMatch(t, []string{
		"cmd/ratelimit/v1.1.0", "connectlimit/v1.1.0", "grpclimit/v1.1.0", "mcplimit/mcpgo/v1.1.0", "mcplimit/v1.1.0", "v1.0.0", "v1.1.0",
	}, tags)
	for _, tag := range tags[:len(tags)-2] {
		r.git("verify-tag", tag)
	}
	require.Regexp(t, "\n## Unreleased\n\n## 1.1.0 - \\d{4}-\\d\\d-\\d\\d\n\n### Added\n", r.git("show", "FETCH_HEAD:CHANGELOG.md"))
	r.git("merge-base", "--is-ancestor", "v1.1.0", "FETCH_HEAD")
	r.proves("v1.1.0")

	made := filepath.Join(r.dir, "_artifacts/v1.1.0")
	page := string(read(t, made+"/release.md"))
	require.True(t, strings.HasPrefix(page, "### Added\n\n- `ginlimit.Since`.\n\n## The exported API since v1.0.0\n"), page)
	require.Contains(t, page, "- ./ginlimit.Since: added")
	check := exec.Command("sha256sum", "--check", "--strict", "SHA256SUMS")
	check.Dir = made
	sums, err := check.CombinedOutput()
	require.NoError(t, err, "%s", sums)
	require.Equal(t, 8, strings.Count(string(sums), ": OK\n"), "six programs and two images: %s", sums)

	archive := unpacked(t, made+"/ratelimit_v1.1.0_"+runtime.GOOS+"_"+runtime.GOARCH+".tar.gz")
	says, err := exec.Command(archive+"/ratelimit", "version").Output()
	require.NoError(t, err)
	require.Equal(t, "ratelimit v1.1.0, "+runtime.Version()+" "+runtime.GOOS+"/"+runtime.GOARCH+"\n", string(says))
	require.Contains(t, string(read(t, archive+"/LICENSE")), "MIT")
	isAnImage(t, unpacked(t, made+"/ratelimit_v1.1.0_linux_arm64.image.tar.gz"), "arm64")
}

// proves checks the modules of a version as a proxy reads them from the tags.
func (r releasing) proves(version string) {
	r.t.Helper()
	const library = "github.com/tokenbucket-go/ratelimit"
	download := exec.Command("go", "mod", "download", "-json", library+"@"+version)
	download.Dir = r.t.TempDir()
	download.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+r.t.TempDir(), "GOPROXY=direct", "GOSUMDB=off",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url."+r.dir+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+library)
	out, err := download.Output()
	require.NoError(r.t, err, "%s", out)
	var module struct{ Sum, GoModSum string }
	require.NoError(r.t, json.Unmarshal(out, &module))
	for _, dir := range []string{"cmd/ratelimit", "connectlimit", "grpclimit", "mcplimit", "mcplimit/mcpgo"} {
		at := dir + "/" + version + ":" + dir
		sums := r.git("show", at+"/go.sum")
		require.Contains(r.t, sums, library+" "+version+" "+module.Sum+"\n", dir)
		require.Contains(r.t, sums, library+" "+version+"/go.mod "+module.GoModSum+"\n", dir)
		mod := r.git("show", at+"/go.mod")
		require.Contains(r.t, mod, library+" "+version+"\n", dir)
		require.NotContains(r.t, mod, "replace", dir)
	}
}

// unpacked returns a directory with the files of an archive.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	dir := t.TempDir()
	out, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return dir
}

// isAnImage follows an image from its index to the program in its layer. All
// blobs have the hashes and sizes by which they are named.
func isAnImage(t *testing.T, dir, arch string) {
	t.Helper()
	type descriptor struct {
		Digest   string
		Size     int
		Platform struct{ Architecture string }
	}
	blob := func(d descriptor) string {
		t.Helper()
		path := dir + "/blobs/" + strings.Replace(d.Digest, ":", "/", 1)
		text := read(t, path)
		hash := sha256.Sum256(text)
		require.Equal(t, d.Digest, "sha256:"+hex.EncodeToString(hash[:]))
		require.Len(t, text, d.Size)
		return path
	}
	parse := func(path string, into any) { t.Helper(); require.NoError(t, json.Unmarshal(read(t, path), into)) }
	var index, manifest struct {
		Manifests, Layers []descriptor
		Config            descriptor
	}
	parse(dir+"/index.json", &index)
	require.Len(t, index.Manifests, 1)
	require.Equal(t, arch, index.Manifests[0].Platform.Architecture)
	parse(blob(index.Manifests[0]), &manifest)
	var config struct {
		Architecture, OS string
		Config           struct{ Entrypoint []string }
		Rootfs           struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	parse(blob(manifest.Config), &config)
	require.Equal(t, arch+" linux /ratelimit", config.Architecture+" "+config.OS+" "+strings.Join(config.Config.Entrypoint, " "))
	require.Equal(t, []string{manifest.Layers[0].Digest}, config.Rootfs.DiffIDs)
	root := unpacked(t, blob(manifest.Layers[0]))
	require.Greater(t, len(read(t, root+"/ratelimit")), 1_000_000)
	require.Contains(t, string(read(t, root+"/etc/ssl/certs/ca-certificates.crt")), "BEGIN CERTIFICATE", "for rediss://")

	var loaded []struct { // by docker load
		Config string
		Layers []string
	}
	parse(dir+"/manifest.json", &loaded)
	require.FileExists(t, dir+"/"+loaded[0].Config)
	require.FileExists(t, dir+"/"+loaded[0].Layers[0])
}
