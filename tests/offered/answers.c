/* Answers the commands of nvme-cli and hdparm with a drive's answers from files, so that they judge the same
 * bytes that straddle reads. Preloaded into them; DRIVE_ANSWERS names the folder. A regular file with the
 * sticky bit stands for the drive's node. Nothing is written. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <scsi/sg.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <sys/ioctl.h>
#include <linux/nvme_ioctl.h>

/* Reads an answer into a buffer; returns 0, or -1 if there is none. */
static int answer(const char *name, void *data, size_t length)
{
	char path[4096];
	const char *folder = getenv("DRIVE_ANSWERS");
	snprintf(path, sizeof path, "%s/%s", folder ? folder : ".", name);
	int fd = open(path, O_RDONLY);
	if (fd < 0)
		return -1;
	memset(data, 0, length);
	ssize_t got = read(fd, data, length);
	close(fd);
	return got < 0 ? -1 : 0;
}

/* ATA PASS-THROUGH(16) of IDENTIFY DEVICE and READ LOG EXT; other commands are aborted. */
static int sg_io(struct sg_io_hdr *io)
{
	const uint8_t *cdb = io->cmdp;
	uint8_t status = 0x50, error = 0;
	char name[32] = "";
	if (cdb[0] == 0x85 && cdb[14] == 0xec)
		strcpy(name, "ata-identify");
	else if (cdb[0] == 0x85 && cdb[14] == 0x2f)
		snprintf(name, sizeof name, "ata-log-%02x", cdb[8]);
	if (!*name || answer(name, io->dxferp, io->dxfer_len)) {
		status = 0x51;
		error = 0x04;
	}
	io->status = 2; /* CHECK CONDITION, with an ATA Status Return descriptor */
	io->host_status = 0;
	io->driver_status = 8;
	io->resid = 0;
	io->info = 0;
	uint8_t sense[22] = { 0x72, 1, 0, 0x1d, 0, 0, 0, 14, 0x09, 12 };
	sense[11] = error;
	sense[21] = status;
	io->sb_len_wr = io->mx_sb_len < sizeof sense ? io->mx_sb_len : sizeof sense;
	memcpy(io->sbp, sense, io->sb_len_wr);
	return 0;
}

int ioctl(int fd, unsigned long request, ...)
{
	va_list list;
	va_start(list, request);
	void *argument = va_arg(list, void *);
	va_end(list);
	if (request == SG_IO)
		return sg_io(argument);
	if (request == (unsigned long)NVME_IOCTL_ID)
		return 1;
	if (request == NVME_IOCTL_ADMIN_CMD) {
		struct nvme_admin_cmd *command = argument;
		const char *name = (command->cdw10 & 0xff) == 0 ? "nvme-id-ns" : (command->cdw10 & 0xff) == 1 ? "nvme-id-ctrl" : "none";
		int is_read = command->opcode == 6 && !answer(name, (void *)(uintptr_t)command->addr, command->data_len);
		return is_read ? 0 : 0x4002; /* Invalid Field in Command, Do Not Retry */
	}
	return syscall(SYS_ioctl, fd, request, argument);
}

static int is_node(const struct stat64 *found)
{
	return S_ISREG(found->st_mode) && found->st_mode & S_ISVTX;
}

/* nvme-cli wants a block device. */
int fstat64(int fd, struct stat64 *found)
{
	int done = fstatat64(fd, "", found, AT_EMPTY_PATH);
	if (!done && is_node(found))
		found->st_mode = (found->st_mode & ~S_IFMT) | S_IFBLK;
	return done;
}
