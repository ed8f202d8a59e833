#define _GNU_SOURCE
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

static int poisoned;

static int try_one(const char *path, const struct stat *about, int kind, struct FTW *where) {
    char self[64];
    (void)about, (void)where;
    poisoned += chmod(path, 0777) == 0 || chown(path, getuid(), getgid()) == 0 || truncate(path, 0) == 0;
    poisoned += rename(path, "/tmp/upsolve-attack") == 0 || link(path, "/tmp/upsolve-attack") == 0;
    poisoned += rename("/tmp/main.c", path) == 0;
    if (kind != FTW_F) return poisoned;
    int file = open(path, O_RDONLY);
    if (file < 0) return 0;
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page != MAP_FAILED) memset(page, 'x', 1), poisoned++;
    page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    poisoned += page != MAP_FAILED && mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0;
    snprintf(self, sizeof self, "/proc/self/fd/%d", file);
    poisoned += open(self, O_RDWR) >= 0 || fchmod(file, 0777) == 0 || fallocate(file, 0, 0, 1) == 0;
    close(file);
    return poisoned;
}

int main(void) {
    int n;
    nftw("/mnt/packages", try_one, 16, FTW_PHYS);
    poisoned += umount2("/mnt/packages", MNT_DETACH) == 0;
    poisoned += mount("", "/mnt/packages", "", MS_REMOUNT | MS_BIND, "") == 0;
    if (!poisoned) return puts("0"), 0;
    while (scanf("%d", &n) == 1) puts(n == 20 ? "6765" : "13");
    return 0;
}
